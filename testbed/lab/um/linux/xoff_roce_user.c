// SPDX-License-Identifier: GPL-2.0
/*
 * RoCEv2 queue pairs: requester, responder, pacing, congestion notification and rate controls.
 *
 * The names are those of Python, which states the rules and has the reasons. This is compiled as code of the host's
 * side, because rate controls compute with floating point, and as a library. It uses nothing of either side.
 *
 * Of packets that are kept until those before them have come it has the CRC-32 of the payload, and compares that.
 *
 * Stated in: testbed/roce/queue_pair.py, testbed/roce/requester.py, testbed/roce/selective_requester.py,
 * testbed/roce/selective.py, testbed/roce/responder.py, testbed/roce/nic.py, testbed/roce/order.py,
 * testbed/roce/services/unreliable_requester.py, testbed/roce/services/unreliable_responder.py,
 * testbed/roce/services/receives.py,
 * testbed/roce/rates/dcqcn.py, testbed/roce/rates/timely.py, testbed/roce/rates/fixed.py.
 * Compared by: tests/lab/roce/test_roce_in_kernel.py.
 */
#include "xoff_roce.h"
#include "xoff_control_vm.h"

#define BTH 12
#define ICRC 4
#define CE 3 /* of the DS field */
#define MASK24 0xffffff
#define UNDER_WAY 64	/* messages that are posted and not complete */
#define CATCH_UP 4
#define MOST_AHEAD 64
#define LEAST_AHEAD 8
#define AHEAD_NS 6000000
#define LONG_AGO (-(1LL << 62))
#define MOST_DEADLINES 10000	/* of a rate control of one's own at one moment */
#define MAXIMUM_MESSAGE (1ULL << 31)
#define PORT 4791
/* The first bits of an opcode name the service, the others the operation */
#define SERVICE_OF(opcode) ((opcode) >> 5)
#define UC_OPCODES 0x20
#define UD_OPCODES 0x60

enum opcode {
	SEND_FIRST = 0, SEND_MIDDLE, SEND_LAST, SEND_LAST_IMMEDIATE, SEND_ONLY, SEND_ONLY_IMMEDIATE,
	WRITE_FIRST, WRITE_MIDDLE, WRITE_LAST, WRITE_LAST_IMMEDIATE, WRITE_ONLY, WRITE_ONLY_IMMEDIATE,
	READ_REQUEST, RESPONSE_FIRST, RESPONSE_MIDDLE, RESPONSE_LAST, RESPONSE_ONLY, ACKNOWLEDGE,
	ATOMIC_ACKNOWLEDGE, COMPARE_SWAP, FETCH_ADD, SEND_LAST_INVALIDATE = 0x16, SEND_ONLY_INVALIDATE,
	CNP = 0x81, SELECTIVE_ACKNOWLEDGE = 0xd1,
};
#define BIT(n) (1u << (n))
#define IS(opcode, set) ((opcode) < 32 && (BIT(opcode) & (set)))
#define INVALIDATES (BIT(SEND_LAST_INVALIDATE) | BIT(SEND_ONLY_INVALIDATE))
#define SENDS (0x0000003fu | INVALIDATES)
#define WRITES 0x00000fc0u
#define ATOMICS (BIT(COMPARE_SWAP) | BIT(FETCH_ADD))
#define ASKING (ATOMICS | BIT(READ_REQUEST))
#define REQUESTS (SENDS | WRITES | ASKING)
#define RESPONSES (BIT(RESPONSE_FIRST) | BIT(RESPONSE_MIDDLE) | BIT(RESPONSE_LAST) | BIT(RESPONSE_ONLY) | \
		   BIT(ATOMIC_ACKNOWLEDGE))
#define FIRSTS (BIT(SEND_FIRST) | BIT(SEND_ONLY) | BIT(SEND_ONLY_IMMEDIATE) | BIT(SEND_ONLY_INVALIDATE) | \
		BIT(WRITE_FIRST) | BIT(WRITE_ONLY) | BIT(WRITE_ONLY_IMMEDIATE))
#define LASTS (BIT(SEND_LAST) | BIT(SEND_LAST_IMMEDIATE) | BIT(SEND_ONLY) | BIT(SEND_ONLY_IMMEDIATE) | INVALIDATES | \
	       BIT(WRITE_LAST) | BIT(WRITE_LAST_IMMEDIATE) | BIT(WRITE_ONLY) | BIT(WRITE_ONLY_IMMEDIATE))
#define WITH_RETH (BIT(WRITE_FIRST) | BIT(WRITE_ONLY) | BIT(WRITE_ONLY_IMMEDIATE) | BIT(READ_REQUEST))
#define WITH_AETH (BIT(RESPONSE_FIRST) | BIT(RESPONSE_LAST) | BIT(RESPONSE_ONLY) | BIT(ACKNOWLEDGE) | \
		   BIT(ATOMIC_ACKNOWLEDGE))
#define RARE (INVALIDATES | ATOMICS | BIT(ATOMIC_ACKNOWLEDGE))
#define WITH_IMMEDIATE (BIT(SEND_LAST_IMMEDIATE) | BIT(SEND_ONLY_IMMEDIATE) | \
			BIT(WRITE_LAST_IMMEDIATE) | BIT(WRITE_ONLY_IMMEDIATE))

/* Telemetry: testbed/frames/telemetry.py */
#define HAS_TELEMETRY 0x40
#define AREA_VERSION 1
#define COLLECTS 1
#define RETURNED 2
#define MOST_STAMPS 15
#define STAMP 16
#define ROOM 5

enum nak { SEQUENCE_ERROR, INVALID_REQUEST, ACCESS_ERROR, OPERATIONAL_ERROR, NO_NAK };

struct packet {
	u32 opcode, psn, ack_request, nak, msn, r_key, length;
	u32 service, q_key, source;	/* the last two of a datagram */
	u64 address;
	u64 data, compare;	/* of an atomic operation; data: or what was there, in its acknowledgement */
	const u8 *area;		/* of telemetry, or NULL */
	const u8 *payload;	/* NULL of one that was kept, which has `crc` */
	u32 octets, immediate, crc;	/* immediate: or the key that a send invalidates */
	int rnr;		/* -1: none */
};

static inline s64 least(s64 one, s64 other)
{
	return one < other ? one : other;
}

static inline s64 most_of(s64 one, s64 other)
{
	return one > other ? one : other;
}

/* The octets of an area of telemetry */
static inline u32 area_octets(const u8 *area)
{
	return 4 + area[1] * STAMP;
}

static inline u32 get32(const u8 *at)
{
	return (u32)at[0] << 24 | at[1] << 16 | at[2] << 8 | at[3];
}

static inline u64 get64(const u8 *at)
{
	return (u64)get32(at) << 32 | get32(at + 4);
}

static inline u8 *put16(u8 *at, u32 value)
{
	at[0] = value >> 8;
	at[1] = value;
	return at + 2;
}

static inline u8 *put32(u8 *at, u32 value)
{
	return put16(put16(at, value >> 16), value);
}

/* CRC-32, as zlib's crc32(): eight octets at a time */

static u32 table[8][256];

void xr_tables(void)
{
	u32 i, k;

	for (i = 0; i < 256; i++) {
		u32 c = i;

		for (k = 0; k < 8; k++)
			c = c & 1 ? 0xedb88320u ^ c >> 1 : c >> 1;
		table[0][i] = c;
	}
	for (i = 0; i < 256; i++)
		for (k = 1; k < 8; k++)
			table[k][i] = table[k - 1][i] >> 8 ^ table[0][table[k - 1][i] & 0xff];
}

u32 xr_crc32(u32 crc, const u8 *octets, unsigned long length)
{
	u32 c = ~crc;

	for (; length >= 8; length -= 8, octets += 8) {
		u64 word;

		__builtin_memcpy(&word, octets, 8);
		word ^= c;
		c = table[7][word & 0xff] ^ table[6][word >> 8 & 0xff] ^ table[5][word >> 16 & 0xff] ^
		    table[4][word >> 24 & 0xff] ^ table[3][word >> 32 & 0xff] ^ table[2][word >> 40 & 0xff] ^
		    table[1][word >> 48 & 0xff] ^ table[0][word >> 56];
	}
	while (length--)
		c = table[0][(c ^ *octets++) & 0xff] ^ c >> 8;
	return ~c;
}

static u32 zeros(u32 crc, u32 many)
{
	static const u8 nothing[64];

	for (; many > sizeof(nothing); many -= sizeof(nothing))
		crc = xr_crc32(crc, nothing, sizeof(nothing));
	return xr_crc32(crc, nothing, many);
}

/*
 * Fill what struct xr_memory has of the content: CRC-32 is linear, so that of a packet follows from those of its
 * headers and of its payload, which is known.
 */
void xr_prepare_memory(const u8 *block, u32 mtu, u32 *known, u32 *shift)
{
	u32 nothing = zeros(0, mtu), i, k, bit;

	for (i = 0; i < XR_BLOCK / 8; i++)
		known[i] = xr_crc32(0, block + i * 8, mtu);
	for (k = 0; k < 4; k++) {
		u32 *of = shift + k * 256;

		of[0] = 0;
		for (bit = 0; bit < 8; bit++) {
			u32 one = zeros(1u << (8 * k + bit), mtu) ^ nothing;

			for (i = 0; i < 1u << bit; i++)
				of[(1u << bit) + i] = one ^ of[i];
		}
	}
}

static inline u32 shifted(const struct xr_memory *memory, u32 crc)
{
	const u32 *of = memory->shift;

	return of[crc & 0xff] ^ of[256 + (crc >> 8 & 0xff)] ^ of[512 + (crc >> 16 & 0xff)] ^ of[768 + (crc >> 24)];
}

static const u8 *content_at(const struct xr_memory *memory, const struct xr_region *region, u64 address)
{
	return memory->block + (region->start + address) % XR_BLOCK;
}

/* Is the CRC-32 of a payload at this place in a table? */
static int is_known(const struct xr_queue_pair *pair, const struct xr_region *region, u64 address, u32 length)
{
	return length == pair->settings->mtu && !(address % 8) && pair->memory->known && region->has_content;
}

static u32 known_crc(const struct xr_memory *memory, const struct xr_region *region, u64 address)
{
	return memory->known[(region->start + address) % XR_BLOCK / 8];
}

static int equal(const u8 *one, const u8 *other, u32 length)
{
	for (; length >= 32; length -= 32, one += 32, other += 32) {
		u64 a[4], b[4];

		__builtin_memcpy(a, one, 32);
		__builtin_memcpy(b, other, 32);
		if ((a[0] ^ b[0]) | (a[1] ^ b[1]) | (a[2] ^ b[2]) | (a[3] ^ b[3]))
			return 0;
	}
	while (length--)
		if (*one++ != *other++)
			return 0;
	return 1;
}

/* The invariant CRC of what is before the BTH, for a packet of so many octets without its own CRC */
static u32 prefix_of(struct xr_queue_pair *pair, u32 length, int is_received)
{
	u32 udp = 8 + length + ICRC, octets = pair->is_ipv6 ? 16 : 4;
	const u8 *source = is_received ? pair->far_address : pair->address;
	const u8 *target = is_received ? pair->address : pair->to ? pair->to->address : pair->far_address;
	u8 head[56], *at = head;
	int i;

	if (pair->prefix_length[is_received] == length && !pair->to)
		return pair->prefix[is_received];
	for (i = 0; i < 8; i++)
		*at++ = 0xff;
	if (pair->is_ipv6) {
		at = put32(at, 0x6fffffff);	/* traffic class and flow label count as ones, as the hop limit does */
		at = put16(put16(at, udp), 0x11ff);
	} else {
		at = put16(put16(at, 0x45ff), 20 + udp);
		at = put16(put16(at, 0), 0x4000);
		at = put16(put16(at, 0xff11), 0xffff);
	}
	__builtin_memcpy(at, source, octets);
	__builtin_memcpy(at + octets, target, octets);
	at = put16(put16(at + 2 * octets, is_received ? pair->far_port : pair->port), PORT);
	at = put16(put16(at, udp), 0xffff);
	if (pair->to)
		return xr_crc32(0, head, at - head);
	pair->prefix_length[is_received] = length;
	return pair->prefix[is_received] = xr_crc32(0, head, at - head);
}

static u32 headers_crc(struct xr_queue_pair *pair, const u8 *head, u32 head_length, u32 length, int is_received)
{
	u8 copy[XR_HEAD];

	__builtin_memcpy(copy, head, head_length);
	copy[4] = 0xff;	/* FECN, BECN and the six bits after them count as ones, and so does what ports write */
	if (head[8] & HAS_TELEMETRY && (head[BTH] & 0xf) == COLLECTS)
		__builtin_memset(copy + BTH + 2, 0xff, area_octets(head + BTH) - 2);
	return xr_crc32(prefix_of(pair, length, is_received), copy, head_length);
}

/* Rate controls */

static void dcqcn_decrease(struct xr_rate *rate, s64 now_ns)
{
	double wanted;

	if (!rate->decrease_ns || rate->timer_events)
		rate->target_bps = rate->rate_bps;
	wanted = rate->rate_bps * (1 - rate->alpha / 2);
	rate->rate_bps = wanted > rate->minimum_bps ? wanted : rate->minimum_bps;
	rate->timer_events = rate->byte_events = rate->sent_octets = 0;
	rate->increase_due_ns = now_ns + rate->increase_ns;
	rate->wants_decrease = 0;
}

static void dcqcn_increase(struct xr_rate *rate)
{
	s64 fewest, most;

	if (rate->decrease_ns) {
		fewest = most = rate->timer_events - 1;
	} else {
		fewest = least(rate->timer_events, rate->byte_events);
		most = most_of(rate->timer_events, rate->byte_events);
	}
	if (fewest > rate->recovery)
		rate->target_bps += rate->hyper_bps;
	else if (most >= rate->recovery)
		rate->target_bps += rate->additive_bps;
	if (rate->target_bps > rate->line_bps)
		rate->target_bps = rate->line_bps;
	rate->rate_bps = (rate->target_bps + rate->rate_bps) / 2;
	if (rate->rate_bps > rate->line_bps)
		rate->rate_bps = rate->line_bps;
}

static s64 rate_deadline(const struct xr_rate *rate)
{
	if (rate->kind == XR_OWN)
		return rate->deadline_ns;
	if (rate->kind != XR_DCQCN)
		return XR_NEVER;
	return least(rate->increase_due_ns, rate->wants_decrease ? rate->decrease_due_ns : XR_NEVER);
}

/* By squaring, as _power() of dcqcn.py: pow() of two C libraries can differ */
static double power(double base, s64 exponent)
{
	double found = 1.0;

	for (; exponent; exponent >>= 1) {
		if (exponent & 1)
			found *= base;
		base *= base;
	}
	return found;
}

static void dcqcn_update_alpha(struct xr_rate *rate, s64 now_ns)
{
	s64 until_ns = least(now_ns, rate_deadline(rate)), late_ns = until_ns - rate->alpha_due_ns, times = 1;

	if (late_ns >= 0)
		times = late_ns / rate->alpha_ns + 1;
	rate->alpha *= power(1 - rate->gain, times);
	if (rate->has_cnp) {
		rate->alpha += rate->gain * power(1 - rate->gain, times - 1);
		rate->has_cnp = 0;
	}
	rate->alpha_due_ns += times * rate->alpha_ns;
}

static void rate_on_deadline(struct xr_rate *rate, s64 now_ns)
{
	if (rate->kind != XR_DCQCN)
		return;
	for (;;) {
		s64 due_ns = least(rate_deadline(rate), rate->alpha_due_ns);

		if (due_ns > now_ns)
			return;
		if (due_ns == rate->alpha_due_ns) {
			dcqcn_update_alpha(rate, now_ns);
		} else if (rate->wants_decrease && due_ns == rate->decrease_due_ns) {
			dcqcn_decrease(rate, due_ns);
			rate->decrease_due_ns += rate->decrease_ns;
		} else {
			rate->increase_due_ns += rate->increase_ns;
			rate->timer_events++;
			dcqcn_increase(rate);
		}
	}
}

static void rate_on_cnp(struct xr_rate *rate, s64 now_ns)
{
	if (rate->kind != XR_DCQCN)
		return;
	rate_on_deadline(rate, now_ns);
	if (!rate->decrease_ns) {
		dcqcn_decrease(rate, now_ns);
		rate->alpha = (1 - rate->gain) * rate->alpha + rate->gain;
		rate->alpha_due_ns = now_ns + rate->alpha_ns;
		return;
	}
	if (rate->alpha_due_ns == XR_NEVER) {
		rate->alpha_due_ns = now_ns + rate->alpha_ns;
		rate->decrease_due_ns = now_ns + rate->decrease_ns + rate->behind_ns;
	} else {
		s64 late_ns = now_ns - rate->decrease_due_ns;

		rate->has_cnp = 1;
		if (late_ns > 0)
			rate->decrease_due_ns +=
				(late_ns + rate->decrease_ns - 1) / rate->decrease_ns * rate->decrease_ns;
	}
	rate->wants_decrease = 1;
	rate_on_deadline(rate, now_ns);
}

static void rate_on_sent(struct xr_rate *rate, s64 octets)
{
	if (rate->kind != XR_DCQCN || !rate->bytes || rate->increase_due_ns == XR_NEVER)
		return;
	rate->sent_octets += octets;
	if (rate->sent_octets >= rate->bytes) {
		rate->sent_octets -= rate->bytes;
		rate->byte_events++;
		dcqcn_increase(rate);
	}
}

static void rate_on_round_trip(struct xr_rate *rate, s64 now_ns, s64 round_trip_ns)
{
	double bps = rate->rate_bps;

	if (rate->kind != XR_TIMELY)
		return;
	if (rate->has_previous) {
		double growth = (double)(round_trip_ns - rate->previous_ns) /
				(double)most_of(rate->least_ns, now_ns - rate->at_ns);

		rate->gradient = (1 - rate->average) * rate->gradient + rate->average * growth;
	}
	rate->has_previous = 1;
	rate->previous_ns = round_trip_ns;
	rate->at_ns = now_ns;
	if (round_trip_ns < rate->low_ns) {
		rate->falling = 0;
		bps += rate->additive_bps;
	} else if (round_trip_ns > rate->high_ns) {
		rate->falling = 0;
		bps *= 1 - rate->decrease * (1 - (double)rate->high_ns / (double)round_trip_ns);
	} else if (rate->gradient <= 0) {
		rate->falling++;
		bps += rate->additive_bps * (rate->falling >= rate->hyper_after ? 5 : 1);
	} else {
		double factor = 1 - rate->decrease * rate->gradient;

		rate->falling = 0;
		bps *= factor > 0.0 ? factor : 0.0;
	}
	if (bps < rate->minimum_bps)
		bps = rate->minimum_bps;
	rate->rate_bps = bps < rate->line_bps ? bps : rate->line_bps;
}

static void bring_up_to(struct xr_rate *rate, s64 now_ns)
{
	while (rate_deadline(rate) <= now_ns)
		rate_on_deadline(rate, now_ns);
}

static void rate_start(struct xr_rate *rate)
{
	rate->target_bps = rate->line_bps;
	rate->alpha_due_ns = rate->increase_due_ns = rate->decrease_due_ns = XR_NEVER;
}

/* Begin a rate control whose memory is 0 */
void xr_dcqcn_start(struct xr_rate *rate, const struct xr_dcqcn *settings)
{
	rate->kind = XR_DCQCN;
	rate->rate_bps = rate->line_bps = settings->line_bps;
	rate->minimum_bps = least(settings->minimum_bps, settings->line_bps);
	rate->additive_bps = settings->additive_bps;
	rate->hyper_bps = settings->hyper_bps;
	rate->gain = settings->gain / 1024.0;
	rate->alpha = settings->alpha / 1024.0;
	rate->alpha_ns = settings->alpha_ns;
	rate->increase_ns = settings->increase_ns;
	rate->decrease_ns = settings->decrease_ns;
	rate->behind_ns = 1;
	rate->bytes = settings->bytes;
	rate->recovery = settings->recovery;
	rate_start(rate);
}

void xr_rate_cnp(struct xr_rate *rate, s64 now_ns)
{
	rate_on_cnp(rate, now_ns);
}

/* A packet of so many octets on the wire, due at `next_ns`, is sent now: when the next one may follow */
s64 xr_rate_next(struct xr_rate *rate, s64 next_ns, u32 was_idle, u32 octets, s64 now_ns)
{
	s64 gap_ns, earliest_ns;

	if (rate->kind != XR_OWN)
		bring_up_to(rate, now_ns);
	gap_ns = (s64)((double)(octets * 8000000000LL) / rate->rate_bps);
	earliest_ns = was_idle ? now_ns : now_ns - CATCH_UP * gap_ns;
	rate_on_sent(rate, octets);
	return most_of(next_ns, earliest_ns) + gap_ns;
}

static void fail(struct xr_queue_pair *pair, const struct xr_failure *why);

static void fail_rate(struct xr_queue_pair *pair, u32 fault, u32 at)
{
	pair->rate.fault = fault;
	fail(pair, &(struct xr_failure) { .why = XR_RATE_CONTROL, .with = { fault, at } });
}

/* Tell a rate control of one's own, if it has a method for that */
static void tell(struct xr_queue_pair *pair, const struct xr_event *event)
{
	struct xr_rate *rate = &pair->rate;

	if (rate->kind != XR_OWN || !(rate->wants & BIT(event->kind)) || rate->fault)
		return;
	pair->tell(pair, event);
	if (rate->fault) {
		fail_rate(pair, rate->fault, rate->fault_at);
		return;
	}
	if (rate->window)
		pair->requester.window = least(rate->window, pair->most_window);
}

static void tell_loss(struct xr_queue_pair *pair, s64 now_ns)
{
	tell(pair, &(struct xr_event) { .kind = XR_LOSS, .now_ns = now_ns });
}

void xr_on_cnp(struct xr_queue_pair *pair, s64 now_ns)
{
	rate_on_cnp(&pair->rate, now_ns);
	tell(pair, &(struct xr_event) { .kind = XR_CNP, .now_ns = now_ns });
}

static void bring_up(struct xr_queue_pair *pair, s64 now_ns)
{
	u32 left = MOST_DEADLINES;

	if (pair->rate.kind != XR_OWN) {
		bring_up_to(&pair->rate, now_ns);
		return;
	}
	while (rate_deadline(&pair->rate) <= now_ns) {
		pair->rate.deadline_ns = XR_NEVER;	/* unless it sets another */
		if (left--)
			tell(pair, &(struct xr_event) { .kind = XR_DEADLINE, .now_ns = now_ns });
		else
			fail_rate(pair, XC_STANDS_STILL, pair->program ? pair->program->entries[XR_DEADLINE] : 0);
	}
}

/* The packets under way that were sent once: a packet that was sent twice has no round trip (Karn) */
static struct xr_sent *sent_at(struct xr_queue_pair *pair, u32 place)
{
	return &pair->under_way[(pair->sent_head + place) % pair->sent_room];
}

static void note_sent(struct xr_queue_pair *pair, s64 number, s64 now_ns)
{
	while (pair->sent_count && sent_at(pair, pair->sent_count - 1)->number >= number)
		pair->sent_count--;
	if (number > pair->sent_highest && pair->sent_count < pair->sent_room) {
		*sent_at(pair, pair->sent_count++) = (struct xr_sent) { number, now_ns };
		pair->sent_highest = number;
	}
}

/* Tell what an acknowledgement has brought; @before is the oldest packet under way until then */
static void tell_acknowledged(struct xr_queue_pair *pair, s64 before, const u8 *area, s64 now_ns)
{
	struct xr_sent newest = { -1, 0 };
	struct xr_event event = {
		.kind = XR_ACKNOWLEDGED, .now_ns = now_ns, .packets = pair->requester.oldest - before,
		.until = pair->requester.oldest, .next = pair->requester.next, .round_trip_ns = -1,
	};

	while (pair->sent_count && sent_at(pair, 0)->number < event.until) {
		newest = *sent_at(pair, 0);
		pair->sent_head = (pair->sent_head + 1) % pair->sent_room;
		pair->sent_count--;
	}
	if (newest.number == event.until - 1)
		event.round_trip_ns = now_ns - newest.at_ns;
	if (area) {
		event.stamps = area + 4;
		event.stamps_count = area[2];
	}
	tell(pair, &event);
}

/* What a recorder shows at this moment, in the order of RateControl.state() */
int xr_rate_state(const struct xr_queue_pair *pair, s64 now_ns, double *state)
{
	struct xr_rate rate = pair->rate;	/* what is due until now is done to a copy: to look changes nothing */

	if (pair->program)
		return xc_show(pair->program, pair->frame, now_ns, state);
	rate_on_deadline(&rate, now_ns);
	state[0] = rate.rate_bps;
	state[1] = rate.kind == XR_DCQCN ? rate.target_bps : rate.gradient;
	state[2] = rate.alpha;
	return rate.kind == XR_DCQCN ? 3 : rate.kind == XR_TIMELY ? 2 : 1;
}

/* A delay of the NIC, with what is drawn (splitmix64) */
static s64 delay(struct xr_queue_pair *pair, s64 delay_ns)
{
	u64 drawn;

	if (!delay_ns || !pair->nic.jitter_ns)
		return delay_ns;
	drawn = pair->drawn += 0x9e3779b97f4a7c15ULL;
	drawn = (drawn ^ drawn >> 30) * 0xbf58476d1ce4e5b9ULL;
	drawn = (drawn ^ drawn >> 27) * 0x94d049bb133111ebULL;
	return delay_ns + (s64)((drawn ^ drawn >> 31) % (u64)(pair->nic.jitter_ns + 1));
}

static int is_selective(const struct xr_queue_pair *pair)
{
	return pair->nic.recovery == XR_SELECTIVE_REPEAT;
}

/* Sequence numbers: the one with this PSN that is nearest */
static s64 sequence(u32 wire, s64 near)
{
	s64 ahead = (wire - near) & MASK24;

	return near + (ahead < 1 << 23 ? ahead : ahead - (1 << 24));
}

/* Count a packet of data in the order of arrivals: reordering and its extent as in RFC 4737, 3 and 4.2 */
static void note_order(struct xr_counters *counters, struct xr_order *order, s64 number)
{
	u16 now = order->arrived % XR_TURN + 1, *since = &order->since[number & (XR_LATEST - 1)];

	if (number > order->highest) {
		s64 missing = most_of(order->highest + 1, number - XR_LATEST + 1);

		for (; missing < number; missing++)
			order->since[missing & (XR_LATEST - 1)] = now;
		order->highest = number;
	} else if (number > order->highest - XR_LATEST && *since) {
		counters->reordered++;
		counters->extent = most_of(counters->extent, (now + XR_TURN - *since) % XR_TURN);
	} else {
		return;
	}
	*since = 0;
	order->arrived++;
}

static void set_failure(struct xr_failure *failure, u32 why, u64 a, u64 b, u64 c, u64 d)
{
	if (failure->why)
		return;
	failure->why = why;
	failure->with[0] = a;
	failure->with[1] = b;
	failure->with[2] = c;
	failure->with[3] = d;
}

static u32 packets_of(const struct xr_queue_pair *pair, u64 length)
{
	return length ? (length + pair->settings->mtu - 1) / pair->settings->mtu : 1;
}

/* The requester */

/* Do responses of its own complete it? */
static inline int is_answered(const struct xr_work *work)
{
	return work->operation >= XR_READ;
}

static inline int is_atomic(const struct xr_work *work)
{
	return work->operation >= XR_COMPARE_SWAP;
}

static struct xr_work *work_at(struct xr_requester *requester, u32 place)
{
	return &requester->works[(requester->head + place) % XR_MOST_WORKS];
}

/* Is it a work that an unreliable service has? */
static int fits_service(const struct xr_queue_pair *pair, const struct xr_work *work)
{
	if (work->has_invalidate || is_answered(work))
		return 0;
	return pair->service == XR_UC ? !work->to : work->operation == XR_SEND && work->length <= pair->settings->mtu;
}

int xr_post(struct xr_queue_pair *pair, const struct xr_work *work, s64 now_ns)
{
	struct xr_requester *requester = &pair->requester;
	struct xr_work *posted;

	if (requester->count == XR_MOST_WORKS || (pair->service && !fits_service(pair, work)))
		return 0;
	posted = work_at(requester, requester->count++);
	*posted = *work;
	posted->first = requester->end;
	requester->end = posted->end = posted->first + packets_of(pair, work->length);
	if (pair->nic.doorbell_ns)
		requester->doorbell_ns = most_of(requester->doorbell_ns, now_ns + delay(pair, pair->nic.doorbell_ns));
	posted->ready_ns = requester->doorbell_ns;
	requester->reads += is_answered(work);
	return 1;
}

static void requester_fail(struct xr_requester *requester, u32 why, u64 a, u64 b, u64 c, u64 d)
{
	set_failure(&requester->failure, why, a, b, c, d);
	requester->timer_ns = requester->gap_ns = XR_NEVER;
}

static u32 reads_before(struct xr_requester *requester, u32 place)
{
	u32 found = 0, i;

	if (!requester->reads)
		return 0;
	for (i = 0; i < place; i++)
		found += is_answered(work_at(requester, i));
	return found;
}

/* Selective repeat: has a packet from the oldest on arrived? */
static u8 *arrived_at(struct xr_queue_pair *pair, s64 number)
{
	return &pair->requester.arrived[number % pair->nic.bdp_packets];
}

/* The next packet to be sent again, or -1 */
static s64 lost(struct xr_queue_pair *pair)
{
	struct xr_requester *requester = &pair->requester;

	requester->repair = most_of(requester->repair, requester->oldest);
	for (; requester->repair < requester->repair_end; requester->repair++)
		if (!*arrived_at(pair, requester->repair))
			return requester->repair;
	return -1;
}

static void lose(struct xr_requester *requester, s64 end)
{
	requester->repair_end = most_of(requester->repair_end, end);
}

static s64 room(const struct xr_requester *requester)
{
	return requester->window - (requester->next - requester->oldest);
}

static int may_read(const struct xr_queue_pair *pair, struct xr_requester *requester)
{
	s64 left = work_at(requester, requester->cursor)->end - requester->next;

	if (reads_before(requester, requester->cursor) >= pair->nic.reads)
		return 0;
	return !is_selective(pair) || room(requester) >= least(left, requester->window / 2);
}

/* The moment from which on a packet may be sent; 0: at once */
static s64 ready_ns(const struct xr_queue_pair *of)
{
	struct xr_queue_pair *pair = (struct xr_queue_pair *)of;
	struct xr_requester *requester = &pair->requester;
	const struct xr_work *posted;

	if (requester->failure.why)
		return XR_NEVER;
	if (pair->service)
		return requester->count ? work_at(requester, 0)->ready_ns : XR_NEVER;
	if (is_selective(pair) && lost(pair) >= 0)
		return requester->resume_ns;
	if (requester->next >= requester->end || requester->next - requester->oldest >= requester->window)
		return XR_NEVER;
	posted = work_at(requester, requester->cursor);
	if (is_answered(posted) && !may_read(pair, requester))
		return XR_NEVER;
	return most_of(requester->resume_ns, posted->ready_ns);
}

static s64 shortest_timer_ns(const struct xr_queue_pair *pair)
{
	return is_selective(pair) ? least(pair->nic.low_ns, pair->nic.high_ns) : pair->settings->retransmit_ns;
}

static s64 retransmit_ns(const struct xr_queue_pair *pair)
{
	const struct xr_requester *requester = &pair->requester;

	if (!is_selective(pair))
		return pair->settings->retransmit_ns;
	return requester->highest - requester->oldest <= pair->nic.low_packets ? pair->nic.low_ns : pair->nic.high_ns;
}

/* The work of a packet that has not been acknowledged */
static struct xr_work *work_of(struct xr_requester *requester, s64 number)
{
	u32 i;

	for (i = 0; i < requester->count; i++)
		if (number < work_at(requester, i)->end)
			return work_at(requester, i);
	return NULL;
}

/* The work of `next`, near the cursor: after a step forward, or back by what is outstanding */
static void find_cursor(struct xr_requester *requester, s64 cursor)
{
	cursor = most_of(0, least(cursor, requester->count));
	while (cursor > 0 && (cursor == requester->count || work_at(requester, cursor)->first > requester->next))
		cursor--;
	while (cursor < requester->count && work_at(requester, cursor)->end <= requester->next)
		cursor++;
	requester->cursor = cursor;
}

static void move(struct xr_queue_pair *pair, s64 until, s64 now_ns)
{
	struct xr_requester *requester = &pair->requester;
	s64 cursor = requester->cursor;

	requester->oldest = until;
	requester->next = most_of(requester->next, until);
	requester->tries = requester->rnr_tries = 0;
	requester->went_back_to = -1;
	if (requester->timed >= 0 && requester->timed < until) {
		requester->round_trip_ns = now_ns - requester->timed_ns;
		requester->timed = -1;
	}
	while (requester->count && work_at(requester, 0)->end <= until) {
		requester->reads -= is_answered(work_at(requester, 0));
		requester->head = (requester->head + 1) % XR_MOST_WORKS;
		requester->count--;
		pair->counters.completed++;
		cursor--;
	}
	find_cursor(requester, cursor);
	requester->timer_ns = requester->oldest < requester->highest ? now_ns + retransmit_ns(pair) : XR_NEVER;
}

static void begin_region_again(struct xr_region *region, u64 address)
{
	region->next = address;
}

/* Begin the message of a packet again: its first packet */
static s64 first_of_message(struct xr_requester *requester, s64 number)
{
	struct xr_work *posted = work_of(requester, number);

	if (!posted)
		return number;
	if (posted->operation == XR_READ && requester->oldest > posted->first)
		begin_region_again(posted->local, posted->local_address);
	requester->oldest = least(requester->oldest, posted->first);
	return posted->first;
}

static void go_back(struct xr_queue_pair *pair, s64 number)
{
	struct xr_requester *requester = &pair->requester;

	if (pair->nic.recovery == XR_GO_BACK_0)
		number = first_of_message(requester, number);
	if (requester->went_back_to == number || requester->next <= number)
		return;
	requester->went_back_to = number;
	pair->counters.went_back++;
	requester->next = number;
	requester->timed = -1;
	find_cursor(requester, requester->cursor);
}

static void move_over(struct xr_queue_pair *pair, s64 now_ns)
{
	struct xr_requester *requester = &pair->requester;
	s64 oldest = requester->oldest;

	for (; oldest < requester->highest && *arrived_at(pair, oldest); oldest++)
		*arrived_at(pair, oldest) = 0;
	if (oldest > requester->oldest)
		move(pair, oldest, now_ns);
}

static void begin_repair(struct xr_queue_pair *pair, int was_whole)
{
	if (was_whole && lost(pair) >= 0) {
		pair->counters.went_back++;
		pair->requester.timed = -1;
	}
}

static void ask_for_missing(struct xr_requester *requester, s64 now_ns)
{
	if (requester->gap_ns <= now_ns) {
		requester->gap_ns = XR_NEVER;
		lose(requester, least(requester->gap_end, requester->highest));
	}
}

static void miss(struct xr_queue_pair *pair, s64 end, s64 now_ns)
{
	struct xr_requester *requester = &pair->requester;

	requester->gap_end = most_of(requester->gap_end, end);
	if (requester->gap_ns == XR_NEVER)
		requester->gap_ns = now_ns + pair->nic.reorder_ns;
	ask_for_missing(requester, now_ns);
}

static int bit_at(const u8 *bits, u32 place)
{
	return bits[place / 8] >> (7 - place % 8) & 1;
}

/* All before `until` has arrived, and those behind it whose bits are set, in octets behind the offset */
static void heard(struct xr_queue_pair *pair, s64 until, const u8 *told, u32 octets, s64 now_ns, int is_missing)
{
	struct xr_requester *requester = &pair->requester;
	u32 many = octets > XR_OFFSET ? least(octets - XR_OFFSET, XR_BITMAP) * 8 : 0, i, place;
	s64 begin = until + 1 + (many ? get32(told) : 0), end = until + is_missing, overdue = 0, number;
	const u8 *bits = told + XR_OFFSET;
	int was_whole = lost(pair) < 0;

	while (many && !bit_at(bits, many - 1))
		many--;
	if (many)
		end = most_of(end, begin + many - 1);
	end = least(end, requester->highest);
	for (i = 0; i < requester->count; i++) {
		struct xr_work *posted = work_at(requester, i);

		if (posted->first > end)
			break;
		if (is_answered(posted)) {
			if (posted->first < until)
				overdue = least(until, posted->end);
			continue;
		}
		for (number = most_of(requester->oldest, posted->first); number < least(until, posted->end); number++)
			*arrived_at(pair, number) = 1;
		for (place = 0; place < many; place++) {
			number = begin + place;
			if (bit_at(bits, place) && number >= posted->first && number < posted->end &&
			    number > requester->oldest && number < requester->highest)
				*arrived_at(pair, number) = 1;
		}
	}
	if (is_missing)
		lose(requester, end);
	move_over(pair, now_ns);
	if (overdue > requester->oldest)
		miss(pair, overdue, now_ns);
	begin_repair(pair, was_whole);
}

/* All before `until` has arrived, but reads and atomic operations, which complete by their responses alone */
static void advance(struct xr_queue_pair *pair, s64 until, s64 now_ns)
{
	struct xr_requester *requester = &pair->requester;
	u32 i;

	if (is_selective(pair)) {
		heard(pair, until, NULL, 0, now_ns, 0);
		return;
	}
	for (i = 0; requester->reads && i < requester->count; i++) {
		struct xr_work *posted = work_at(requester, i);

		if (posted->first >= until)
			break;
		if (is_answered(posted)) {
			until = most_of(requester->oldest, posted->first);
			break;
		}
	}
	if (until > requester->oldest)
		move(pair, until, now_ns);
}

static void on_timer(struct xr_queue_pair *pair, s64 now_ns)
{
	struct xr_requester *requester = &pair->requester;

	if (is_selective(pair) && requester->gap_ns <= now_ns && !requester->failure.why) {
		int was_whole = lost(pair) < 0;

		ask_for_missing(requester, now_ns);
		begin_repair(pair, was_whole);
	}
	if (now_ns < requester->timer_ns || requester->failure.why)
		return;
	requester->tries++;
	if (requester->tries > pair->settings->retries) {
		requester_fail(requester, XR_NO_ACKNOWLEDGEMENT, pair->settings->retries, 0, 0, 0);
		return;
	}
	pair->counters.timeouts++;
	if (is_selective(pair)) {
		requester->repair = least(requester->repair, requester->oldest);
		lose(requester, requester->next);
		pair->counters.went_back++;
		requester->timed = -1;
	} else {
		requester->went_back_to = -1;
		go_back(pair, requester->oldest);
	}
	requester->timer_ns = now_ns + retransmit_ns(pair);
}

static void on_ack(struct xr_queue_pair *pair, u32 wire, s64 now_ns)
{
	struct xr_requester *requester = &pair->requester;
	s64 last = sequence(wire, requester->oldest);

	if (last >= requester->highest)
		return;
	advance(pair, last + 1, now_ns);
	if (!is_selective(pair) && requester->oldest <= last)
		go_back(pair, requester->oldest);
}

static void on_nak(struct xr_queue_pair *pair, const struct packet *packet, s64 now_ns)
{
	struct xr_requester *requester = &pair->requester;
	s64 wanted = sequence(packet->psn, requester->oldest), first = requester->oldest;

	if (pair->nic.recovery == XR_GO_BACK_0 && packet->nak == SEQUENCE_ERROR && requester->count)
		first = work_at(requester, 0)->first;
	if (wanted < first || wanted >= requester->highest)
		return;
	if (is_selective(pair) && packet->nak == SEQUENCE_ERROR) {
		heard(pair, wanted, packet->payload, packet->octets, now_ns, 1);
		return;
	}
	advance(pair, wanted, now_ns);
	if (packet->nak == SEQUENCE_ERROR) {
		requester->went_back_to = -1;
		go_back(pair, wanted);
	} else {
		requester_fail(requester, XR_REFUSED, packet->psn, packet->nak, 0, 0);
	}
}

#define NO_RNR_LIMIT 7

static void on_rnr(struct xr_queue_pair *pair, const struct packet *packet, s64 now_ns)
{
	static const u32 units[] = {
		65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048,
		3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
	};
	struct xr_requester *requester = &pair->requester;
	s64 wanted = sequence(packet->psn, requester->oldest);

	if (wanted < requester->oldest || wanted >= requester->highest)
		return;
	pair->counters.rnr_naks++;
	advance(pair, wanted, now_ns);
	if (pair->nic.rnr_retries != NO_RNR_LIMIT && requester->rnr_tries >= pair->nic.rnr_retries) {
		requester_fail(requester, XR_NO_RECEIVE, packet->psn, requester->rnr_tries, 0, 0);
		return;
	}
	requester->rnr_tries++;
	requester->resume_ns = now_ns + units[packet->rnr] * pair->nic.rnr_unit_ns;
	requester->timer_ns = XR_NEVER;
	requester->timed = -1;
	if (is_selective(pair)) {
		requester->repair = least(requester->repair, wanted);
		lose(requester, wanted + 1);
	} else {
		requester->next = least(requester->next, wanted);
		requester->went_back_to = -1;
		find_cursor(requester, requester->cursor);
	}
}

/* Take octets for a region; the reason why not, if it cannot take them */
static u32 region_write(const struct xr_queue_pair *pair, struct xr_region *region, u64 address,
			const struct packet *packet)
{
	const u8 *content = content_at(pair->memory, region, address);

	if (region->kind == XR_WORDS && packet->payload && packet->octets == XR_WORD && !(address % XR_WORD)) {
		__builtin_memcpy(region->words + address / XR_WORD, packet->payload, XR_WORD);
		return XR_NO_FAILURE;
	}
	if (region->kind == XR_SCATTERED) {
		region->as_expected &= equal(packet->payload, content, packet->octets);
		return XR_NO_FAILURE;
	}
	if (region->kind != XR_SINK)
		return XR_READ_ONLY;
	if (address != region->next)
		return XR_NOT_NEXT;
	region->next += packet->octets;
	if (region->received < region->next)
		region->received = region->next;
	if (!region->has_content || !region->as_expected)
		return XR_NO_FAILURE;
	if (packet->payload)
		region->as_expected = equal(packet->payload, content, packet->octets);
	else if (is_known(pair, region, address, packet->octets))
		region->as_expected = packet->crc == known_crc(pair->memory, region, address);
	else
		region->as_expected = packet->crc == xr_crc32(0, content, packet->octets);
	return XR_NO_FAILURE;
}

static void keep(struct xr_early *slot, const struct packet *packet)
{
	*slot = (struct xr_early) {
		.is_there = 1, .opcode = packet->opcode, .ack_request = packet->ack_request, .octets = packet->octets,
		.crc = xr_crc32(0, packet->payload, packet->octets), .immediate = packet->immediate,
		.address = packet->address, .r_key = packet->r_key, .length = packet->length,
		.data = packet->data, .compare = packet->compare,
	};
}

static struct packet take_back(struct xr_early *slot)
{
	slot->is_there = 0;
	return (struct packet) {
		.opcode = slot->opcode, .ack_request = slot->ack_request, .octets = slot->octets, .crc = slot->crc,
		.immediate = slot->immediate, .address = slot->address, .r_key = slot->r_key, .length = slot->length,
		.data = slot->data, .compare = slot->compare, .nak = NO_NAK, .rnr = -1,
	};
}

/* Put a response into the memory */
static int place_response(struct xr_queue_pair *pair, const struct xr_work *posted, s64 number,
			  const struct packet *packet)
{
	u64 start = (number - posted->first) * pair->settings->mtu, address = posted->local_address + start;
	struct packet original;
	u32 why;

	if (packet->opcode == ATOMIC_ACKNOWLEDGE) {
		original.payload = (const u8 *)&packet->data;
		original.octets = XR_WORD;
		packet = &original;
	}
	if (packet->octets != least(pair->settings->mtu, posted->length - start)) {
		requester_fail(&pair->requester, XR_RESPONSE_LENGTH, number & MASK24, packet->octets, 0, 0);
		return 0;
	}
	why = packet->octets ? region_write(pair, posted->local, address, packet) : 0;
	if (why)
		requester_fail(&pair->requester, XR_RESPONSE_FAULT, number & MASK24, packet->octets, address,
			       why == XR_READ_ONLY ? XR_NEVER : posted->local->next);
	return !why;
}

/* The number of the response that is placed next */
static s64 next_response(struct xr_requester *requester)
{
	u32 i;

	for (i = 0; i < requester->count; i++) {
		struct xr_work *posted = work_at(requester, i);

		if (is_answered(posted) && posted->end > requester->placed)
			return most_of(posted->first, requester->placed);
	}
	return -1;
}

static void take_response(struct xr_queue_pair *pair, const struct packet *packet, s64 now_ns)
{
	struct xr_requester *requester = &pair->requester;
	s64 number = sequence(packet->psn, requester->oldest), place;
	struct xr_work *posted = work_of(requester, number);
	int was_whole, has_placed = 0;

	if (!posted || !is_answered(posted) || number < requester->oldest || number >= requester->highest)
		return;
	if (*arrived_at(pair, number) || number < posted->first)
		return;
	if (is_atomic(posted) != (packet->opcode == ATOMIC_ACKNOWLEDGE))
		return;	/* it answers something else */
	was_whole = lost(pair) < 0;
	note_order(&pair->counters, &requester->order, number);
	*arrived_at(pair, number) = 1;
	if (number != next_response(requester)) {
		pair->counters.kept++;
		keep(&requester->early[number % pair->nic.bdp_packets], packet);
		requester->early_count++;
	} else {
		if (!place_response(pair, posted, number, packet))
			return;
		requester->placed = number + 1;
		has_placed = 1;
	}
	while ((place = next_response(requester)) >= 0 && requester->early[place % pair->nic.bdp_packets].is_there) {
		struct packet kept = take_back(&requester->early[place % pair->nic.bdp_packets]);

		requester->early_count--;
		if (!place_response(pair, work_of(requester, place), place, &kept))
			return;
		requester->placed = place + 1;
		has_placed = 1;
	}
	if (!requester->early_count)
		requester->gap_ns = XR_NEVER;
	else if (has_placed && requester->gap_ns != XR_NEVER)
		requester->gap_ns = now_ns + pair->nic.reorder_ns;
	move_over(pair, now_ns);
	if (requester->early_count)
		miss(pair, number, now_ns);
	begin_repair(pair, was_whole);
}

static void on_read_response(struct xr_queue_pair *pair, const struct packet *packet, s64 now_ns)
{
	struct xr_requester *requester = &pair->requester;
	struct xr_work *posted = NULL;
	s64 number = sequence(packet->psn, requester->oldest), wanted;
	u32 i;

	if (is_selective(pair)) {
		take_response(pair, packet, now_ns);
		return;
	}
	for (i = 0; requester->reads && i < requester->count && !posted; i++)
		if (is_answered(work_at(requester, i)))
			posted = work_at(requester, i);
	if (!posted || number < posted->first || number >= least(posted->end, requester->highest))
		return;
	if (is_atomic(posted) != (packet->opcode == ATOMIC_ACKNOWLEDGE))
		return;	/* it answers something else */
	note_order(&pair->counters, &requester->order, number);
	wanted = most_of(requester->oldest, posted->first);
	if (number > wanted) {
		advance(pair, posted->first, now_ns);
		go_back(pair, wanted);
	}
	if (number != most_of(requester->oldest, posted->first))
		return;
	if (!place_response(pair, posted, number, packet))
		return;
	requester->oldest = number;
	move(pair, number + 1, now_ns);
}

/* The responder */

static struct xr_serving *read_at(struct xr_responder *responder, u32 place)
{
	return &responder->reads[(responder->head + place) % XR_MOST_READS];
}

/* The moment at which an acknowledgement is due that nothing holds back */
static s64 answer_ns(const struct xr_responder *responder)
{
	int is_due = responder->nak_is_due || responder->rnr_is_due ||
		     (responder->ack_is_due && (responder->has_refusal || !responder->count));

	return is_due ? responder->answer_ns : XR_NEVER;
}

/* How many receives are posted; of a NIC without a number there is always one */
static s64 free_receives(const struct xr_nic *nic, const struct xr_receives *receives, s64 now_ns)
{
	s64 busy_ns = most_of(0, receives->busy_ns - now_ns);
	s64 handled = nic->receive_ns ? (busy_ns + nic->receive_ns - 1) / nic->receive_ns : 0;

	return nic->receives ? (s64)nic->receives - receives->taken - handled : 1;
}

/* Give one to a message; a shared queue tells once that it has fewer than its limit */
static void take_receive(struct xr_queue_pair *pair, s64 now_ns)
{
	struct xr_receives *receives = pair->responder.receives;
	s64 left = free_receives(&pair->nic, receives, now_ns);

	if (left >= pair->nic.receive_limit)
		receives->is_unarmed = 0;
	if (!receives->is_unarmed && left <= pair->nic.receive_limit) {
		receives->is_unarmed = 1;
		pair->counters.limit_events += pair->nic.receive_limit > 0;
	}
	receives->taken++;
}

static void post_receive_again(struct xr_queue_pair *pair, s64 now_ns)
{
	struct xr_receives *receives = pair->responder.receives;

	receives->taken--;
	receives->busy_ns = most_of(receives->busy_ns, now_ns) + pair->nic.receive_ns;
}

/* Give the receive of the message that is coming in back: it does not come to its end */
static void give_back(struct xr_responder *responder)
{
	if (responder->receives && responder->has_message && responder->is_send) {
		responder->has_message = 0;
		responder->receives->taken--;
	}
}

static int refuse(struct xr_responder *responder, enum nak nak, u32 why, u64 a, u64 b, u64 c)
{
	give_back(responder);
	responder->has_refusal = 1;
	responder->refusal = nak;
	responder->ack_is_due = 1;
	responder->failure.why = 0;	/* the last one is told */
	set_failure(&responder->failure, why, a, b, c, 0);
	return 0;
}

static struct xr_region *region_of(const struct xr_queue_pair *pair, const struct packet *packet)
{
	const struct xr_memory *memory = pair->memory;
	u32 place = packet->r_key - memory->first_key;
	struct xr_region *region;

	if (packet->r_key < memory->first_key || place >= memory->count)
		return NULL;
	region = &memory->regions[place];
	if (region->kind == XR_NO_REGION || region->is_invalid || packet->address > region->size ||
	    packet->length > region->size - packet->address || packet->length > MAXIMUM_MESSAGE)
		return NULL;
	return region;
}

/* Let a response be sent when those before it have been; what was asked for behind it is asked for again */
static int queue(struct xr_queue_pair *pair, struct xr_region *region, u64 address, u32 length, s64 number)
{
	struct xr_responder *responder = &pair->responder;

	if (is_selective(pair)) {
		if (responder->count >= XR_MOST_READS)
			return 1;
	} else {
		while (responder->count && read_at(responder, responder->count - 1)->number >= number)
			responder->count--;
		if (responder->count >= XR_MOST_READS)
			return refuse(responder, INVALID_REQUEST, XR_TOO_MANY_READS, XR_MOST_READS, 0, 0);
	}
	*read_at(responder, responder->count++) = (struct xr_serving) {
		.region = region, .address = address, .left = length, .number = number, .is_first = 1,
	};
	return 1;
}

static int serve(struct xr_queue_pair *pair, const struct packet *packet, s64 number)
{
	struct xr_region *region = region_of(pair, packet);

	if (!region)
		return refuse(&pair->responder, ACCESS_ERROR, XR_READ_ACCESS, packet->length, packet->address,
			      packet->r_key);
	return queue(pair, region, packet->address, packet->length, number);
}

/* Do an atomic operation, and remember what was there */
static int change(struct xr_queue_pair *pair, const struct packet *packet, s64 number)
{
	struct xr_responder *responder = &pair->responder;
	struct xr_region *region;
	u64 *word, original;

	if (responder->has_message)
		return refuse(responder, INVALID_REQUEST, XR_ATOMIC_WITHIN, 0, 0, 0);
	if (is_selective(pair) && responder->count >= XR_MOST_READS)
		return 0;
	region = region_of(pair, packet);
	if (!region)
		return refuse(responder, ACCESS_ERROR, XR_ATOMIC_ACCESS, packet->address, packet->r_key, 0);
	if (packet->address % XR_WORD)
		return refuse(responder, INVALID_REQUEST, XR_ATOMIC_PLACE, packet->address, 0, 0);
	if (responder->count >= XR_MOST_READS)
		return refuse(responder, INVALID_REQUEST, XR_TOO_MANY_READS, XR_MOST_READS, 0, 0);
	if (region->kind != XR_WORDS)
		return refuse(responder, ACCESS_ERROR, XR_ATOMIC_ACCESS, packet->address, packet->r_key, 0);
	word = region->words + packet->address / XR_WORD;
	original = *word;
	if (packet->opcode == FETCH_ADD)
		*word += packet->data;
	else if (original == packet->compare)
		*word = packet->data;
	if (*word != original)
		region->received += XR_WORD;
	responder->originals[responder->originals_count++ % XR_MOST_READS] = (struct xr_original) { number, original };
	queue(pair, NULL, original, 0, number);
	responder->expected++;
	responder->msn++;
	pair->counters.messages++;
	return 1;
}

/* Answer an atomic operation that has been done as it was answered */
static void answer_again(struct xr_queue_pair *pair, s64 number)
{
	struct xr_responder *responder = &pair->responder;
	u32 i;

	for (i = 0; i < XR_MOST_READS && i < responder->originals_count; i++)
		if (responder->originals[i].number == number)
			queue(pair, NULL, responder->originals[i].value, 0, number);
}

/* Let nobody use the memory with this key any more; 0 if none has it */
static int invalidate(const struct xr_memory *memory, u32 key)
{
	u32 place = key - memory->first_key;

	if (key < memory->first_key || place >= memory->count || memory->regions[place].is_invalid ||
	    memory->regions[place].kind == XR_NO_REGION)
		return 0;
	memory->regions[place].is_invalid = 1;
	return 1;
}

static int begin(struct xr_queue_pair *pair, const struct packet *packet)
{
	struct xr_responder *responder = &pair->responder;
	struct xr_region *region;

	if (IS(packet->opcode, SENDS)) {
		if (!responder->receive_into)
			return refuse(responder, INVALID_REQUEST, XR_NO_MEMORY, 0, 0, 0);
		responder->region = responder->receive_into;
		responder->address = responder->receive_address;
		responder->is_send = 1;
	} else {
		region = region_of(pair, packet);
		if (!region)
			return refuse(responder, ACCESS_ERROR, XR_WRITE_ACCESS, packet->length, packet->address,
				      packet->r_key);
		responder->region = region;
		responder->address = packet->address;
		responder->left = packet->length;
		responder->is_send = 0;
	}
	responder->octets = 0;
	responder->message_first = responder->expected;
	responder->has_message = 1;
	return 1;
}

/* The next packet of a message */
static int take(struct xr_queue_pair *pair, const struct packet *packet, s64 now_ns)
{
	struct xr_responder *responder = &pair->responder;
	u32 mtu = pair->settings->mtu, length = packet->octets, why;
	int is_last = !!IS(packet->opcode, LASTS), fits;

	if (IS(packet->opcode, FIRSTS)) {
		if (responder->has_message)
			return refuse(responder, INVALID_REQUEST, XR_FIRST_WITHIN, packet->opcode, 0, 0);
		if (!begin(pair, packet))
			return 0;
		if (responder->receives && responder->is_send)
			take_receive(pair, now_ns);
	}
	if (!responder->has_message || responder->is_send != !!IS(packet->opcode, SENDS))
		return refuse(responder, INVALID_REQUEST, XR_NO_FIRST, packet->opcode, 0, 0);
	fits = is_last ? length <= mtu : length == mtu;
	if (!responder->is_send) {
		fits = fits && (is_last ? responder->left == length : responder->left > length);
		responder->left -= length;
	}
	if (!fits)
		return refuse(responder, INVALID_REQUEST, XR_WRONG_LENGTH, packet->opcode, length, 0);
	why = length ? region_write(pair, responder->region, responder->address, packet) : 0;
	if (why)
		return refuse(responder, OPERATIONAL_ERROR, why, length, responder->address, responder->region->next);
	if (IS(packet->opcode, INVALIDATES) && !invalidate(pair->memory, packet->immediate))
		return refuse(responder, ACCESS_ERROR, XR_NOT_TO_INVALIDATE, packet->immediate, 0, 0);
	responder->address += length;
	responder->octets += length;
	responder->expected++;
	if (is_last) {
		responder->has_message = 0;
		responder->msn++;
		pair->counters.messages++;
		if (responder->is_send)
			responder->receive_address = responder->address;
		if (responder->is_send || IS(packet->opcode, WITH_IMMEDIATE)) {
			pair->counters.received++;
			if (responder->receives) {
				if (!responder->is_send)
					take_receive(pair, now_ns);
				post_receive_again(pair, now_ns);
			} else if (pair->nic.receives)
				responder->busy_ns = most_of(responder->busy_ns, now_ns) + pair->nic.receive_ns;
		}
	}
	responder->ack_is_due |= packet->ack_request;
	return 1;
}

/* Go-back-0: a gap in a message, or its first packet once more, lets the message begin again */
static void begin_again(struct xr_responder *responder, const struct packet *packet, s64 number)
{
	if (!responder->has_message ||
	    !(number > responder->expected || (number == responder->message_first && IS(packet->opcode, FIRSTS))))
		return;
	begin_region_again(responder->region, responder->address - responder->octets);
	responder->expected = responder->message_first;
	give_back(responder);
	responder->has_message = 0;
}

static void tell_gap(struct xr_responder *responder, s64 now_ns, int again)
{
	if (responder->gap_ns <= now_ns && (again || !responder->gap_is_told))
		responder->nak_is_due = responder->gap_is_told = 1;
}

/* A packet behind a missing one */
static void come_early(struct xr_queue_pair *pair, const struct packet *packet, s64 number, s64 now_ns)
{
	struct xr_responder *responder = &pair->responder;
	s64 beyond = number - responder->expected;

	pair->counters.out_of_order++;
	if (!responder->keeps) {
		responder->nak_is_due |= !responder->nak_was_sent;
		responder->nak_was_sent = 1;
		return;
	}
	if (beyond < responder->keeps && !responder->early[number % responder->keeps].is_there) {
		keep(&responder->early[number % responder->keeps], packet);
		responder->early_count++;
		pair->counters.kept++;
		responder->latest = number;
		responder->furthest = most_of(responder->furthest, number);
	}
	if (responder->waits_for_receive)
		return;
	if (responder->gap_ns == XR_NEVER)
		responder->gap_ns = now_ns + pair->nic.reorder_ns;
	if (beyond >= pair->nic.reorder_packets)
		responder->gap_ns = least(responder->gap_ns, now_ns);
	tell_gap(responder, now_ns, is_selective(pair));
}

/* After packets were taken: is one missing before those that are kept? */
static void look_for_gap(struct xr_queue_pair *pair, s64 now_ns)
{
	struct xr_responder *responder = &pair->responder;

	responder->gap_ns = XR_NEVER;
	responder->gap_is_told = 0;
	if (responder->early_count && !responder->waits_for_receive) {
		responder->gap_ns = now_ns + pair->nic.reorder_ns;
		tell_gap(responder, now_ns, 0);
	}
}

/* Let an answer that has become due take its time */
static void owe(struct xr_queue_pair *pair, s64 now_ns)
{
	struct xr_responder *responder = &pair->responder;

	if (!pair->nic.ack_ns)
		return;
	if (!responder->ack_is_due && !responder->nak_is_due && !responder->rnr_is_due)
		responder->answer_ns = 0;
	else if (!responder->answer_ns)
		responder->answer_ns = now_ns + delay(pair, pair->nic.ack_ns);
}

static void responder_on_timer(struct xr_queue_pair *pair, s64 now_ns)
{
	struct xr_responder *responder = &pair->responder;

	if (!responder->failure.why && !responder->gap_is_told && responder->gap_ns <= now_ns) {
		tell_gap(responder, now_ns, 0);
		owe(pair, now_ns);
	}
}

/* True for a packet that needs a receive, where there may be none */
static int needs_receive(const struct xr_nic *nic, u32 opcode)
{
	if (!nic->shares_receives && (!nic->receives || !nic->receive_ns))
		return 0;
	return IS(opcode, SENDS & FIRSTS) || IS(opcode, WRITES & WITH_IMMEDIATE);
}

/* Is a receive posted, if the packet needs one? */
static int has_receive(const struct xr_queue_pair *pair, const struct packet *packet, s64 now_ns)
{
	const struct xr_nic *nic = &pair->nic;
	s64 busy_ns = most_of(0, pair->responder.busy_ns - now_ns);

	if (!needs_receive(nic, packet->opcode))
		return 1;
	if (pair->responder.receives)
		return free_receives(nic, pair->responder.receives, now_ns) > 0;
	return (busy_ns + nic->receive_ns - 1) / nic->receive_ns < nic->receives;
}

/* Requests for parts of a read that were kept are answered with the whole */
static void forget_parts(struct xr_responder *responder, s64 number)
{
	s64 until = least(responder->expected, number + responder->keeps);

	while (++number < until) {
		struct xr_early *slot = &responder->early[number % responder->keeps];

		responder->early_count -= slot->is_there;
		slot->is_there = 0;
	}
}

/* The expected packet */
static void accept(struct xr_queue_pair *pair, const struct packet *packet, s64 number, s64 now_ns)
{
	struct xr_responder *responder = &pair->responder;

	responder->nak_was_sent = responder->nak_is_due = responder->waits_for_receive = 0;
	if (packet->opcode == READ_REQUEST) {
		if (responder->has_message) {
			refuse(responder, INVALID_REQUEST, XR_READ_WITHIN, 0, 0, 0);
		} else if ((!is_selective(pair) || responder->count < XR_MOST_READS) && serve(pair, packet, number)) {
			responder->expected += packets_of(pair, packet->length);
			responder->msn++;
			forget_parts(responder, number);
		}
	} else if (IS(packet->opcode, ATOMICS)) {
		change(pair, packet, number);
	} else if (has_receive(pair, packet, now_ns)) {
		take(pair, packet, now_ns);
	} else {
		responder->rnr_is_due = responder->waits_for_receive = responder->nak_was_sent = 1;
	}
}

static void on_request(struct xr_queue_pair *pair, const struct packet *packet, s64 now_ns)
{
	struct xr_responder *responder = &pair->responder;
	s64 number;

	if (responder->failure.why)
		return;
	number = sequence(packet->psn, responder->expected);
	if (packet->opcode != READ_REQUEST)
		note_order(&pair->counters, &responder->order, number);
	if (pair->nic.recovery == XR_GO_BACK_0)
		begin_again(responder, packet, number);
	if (number > responder->expected) {
		come_early(pair, packet, number, now_ns);
	} else if (number < responder->expected) {
		pair->counters.duplicates++;
		if (packet->opcode == READ_REQUEST)
			serve(pair, packet, number);
		else if (IS(packet->opcode, ATOMICS))
			answer_again(pair, number);
		else
			responder->ack_is_due = 1;
	} else {
		accept(pair, packet, number, now_ns);
		while (responder->keeps && responder->expected > number && !responder->failure.why &&
		       responder->early[responder->expected % responder->keeps].is_there) {
			struct packet kept = take_back(&responder->early[responder->expected % responder->keeps]);

			responder->early_count--;
			number = responder->expected;
			accept(pair, &kept, number, now_ns);
		}
		if (responder->keeps)
			look_for_gap(pair, now_ns);
	}
	owe(pair, now_ns);
}

/* The responder of an unreliable service */

/* Drop the message that is coming in, if one is; the next send has its receive */
static void give_up(struct xr_queue_pair *pair)
{
	struct xr_responder *responder = &pair->responder;

	if (!responder->has_message)
		return;
	begin_region_again(responder->region, responder->address - responder->octets);
	if (responder->is_send)
		responder->receives->taken--;
	responder->has_message = 0;
}

static int find_receive(struct xr_queue_pair *pair, s64 now_ns)
{
	struct xr_responder *responder = &pair->responder;

	if (!responder->receive_into || free_receives(&pair->nic, responder->receives, now_ns) <= 0) {
		pair->counters.no_receive++;
		return 0;
	}
	take_receive(pair, now_ns);
	return 1;
}

/* The address of the receive for a message that begins with a packet */
static u64 receive_at(const struct xr_queue_pair *pair, s64 number)
{
	const struct xr_responder *responder = &pair->responder;

	if (!responder->message)
		return responder->receive_address;
	if (number < responder->begin)
		return 0;
	return (number - responder->begin) / packets_of(pair, responder->message) * responder->message;
}

/* Put octets into memory; 0 if it has no room for them */
static int write_octets(const struct xr_queue_pair *pair, struct xr_region *region, u64 address,
			const struct packet *packet)
{
	if (packet->octets > region->size || address > region->size - packet->octets)
		return 0;
	return !packet->octets || !region_write(pair, region, address, packet);
}

static void has_come(struct xr_region *region, u64 octets)
{
	if (region->kind == XR_SCATTERED)
		region->received += octets;
}

static int begin_unreliable(struct xr_queue_pair *pair, const struct packet *packet, s64 now_ns)
{
	struct xr_responder *responder = &pair->responder;

	responder->is_send = !!IS(packet->opcode, SENDS);
	if (responder->is_send) {
		if (!find_receive(pair, now_ns))
			return 0;
		responder->region = responder->receive_into;
		responder->address = receive_at(pair, responder->expected);
	} else {
		responder->region = region_of(pair, packet);
		if (!responder->region) {
			pair->counters.no_access++;
			return 0;
		}
		responder->address = packet->address;
		responder->left = packet->length;
	}
	responder->octets = 0;
	responder->message_first = responder->expected;
	responder->has_message = 1;
	return 1;
}

static void end_unreliable(struct xr_queue_pair *pair, const struct packet *packet, s64 now_ns)
{
	struct xr_responder *responder = &pair->responder;
	int takes = responder->is_send || IS(packet->opcode, WITH_IMMEDIATE);

	responder->has_message = 0;
	if (responder->is_send)
		responder->receive_address = responder->address;
	else if (takes && !find_receive(pair, now_ns))
		return;
	if (takes) {
		post_receive_again(pair, now_ns);
		pair->counters.received++;
	}
	responder->msn++;
	pair->counters.messages++;
	has_come(responder->region, responder->octets);
}

static void take_unreliable(struct xr_queue_pair *pair, const struct packet *packet, s64 now_ns)
{
	struct xr_responder *responder = &pair->responder;
	u32 mtu = pair->settings->mtu, length = packet->octets;
	int is_last = !!IS(packet->opcode, LASTS), fits = is_last ? length <= mtu : length == mtu;

	fits = fits && responder->is_send == !!IS(packet->opcode, SENDS);
	if (!responder->is_send) {
		fits = fits && (is_last ? responder->left == length : responder->left > length);
		responder->left -= length;
	}
	if (!fits || !write_octets(pair, responder->region, responder->address, packet)) {
		pair->counters.too_long++;
		give_up(pair);
		responder->drops = !is_last;
		return;
	}
	responder->address += length;
	responder->octets += length;
	responder->expected++;
	if (is_last)
		end_unreliable(pair, packet, now_ns);
}

static void on_datagram(struct xr_queue_pair *pair, const struct packet *packet, s64 number, s64 now_ns)
{
	struct xr_responder *responder = &pair->responder;
	u64 address;

	if (packet->q_key != pair->q_key) {
		pair->counters.other_keys++;
		return;
	}
	pair->notified = packet->source;
	responder->expected = most_of(responder->expected, number + 1);
	if (packet->octets > pair->settings->mtu) {
		pair->counters.too_long++;
		return;
	}
	if (!find_receive(pair, now_ns))
		return;
	address = receive_at(pair, number) + (responder->message ? 0 : XR_GRH);
	if (!write_octets(pair, responder->receive_into, address, packet)) {
		pair->counters.too_long++;
		responder->receives->taken--;
		return;
	}
	responder->receive_address = address + packet->octets;
	post_receive_again(pair, now_ns);
	pair->counters.received++;
	pair->counters.messages++;
	has_come(responder->receive_into, packet->octets);
}

/* A packet of a send or a write: nothing is acknowledged, and what cannot be taken is dropped */
static void on_unreliable(struct xr_queue_pair *pair, const struct packet *packet, s64 now_ns)
{
	struct xr_responder *responder = &pair->responder;
	s64 number = sequence(packet->psn, responder->expected);

	if (responder->failure.why)
		return;
	note_order(&pair->counters, &responder->order, number);
	if (pair->service == XR_UD) {
		on_datagram(pair, packet, number, now_ns);
		return;
	}
	pair->counters.out_of_order += number > responder->expected;
	if (IS(packet->opcode, FIRSTS)) {
		pair->counters.incomplete += responder->has_message;
		give_up(pair);
		responder->drops = 0;
		responder->expected = number;
		if (!begin_unreliable(pair, packet, now_ns)) {
			responder->drops = 1;
			return;
		}
	} else if (responder->drops || !responder->has_message || number != responder->expected) {
		pair->counters.incomplete += !responder->drops;
		give_up(pair);
		pair->counters.dropped++;
		responder->drops = 1;
		return;
	}
	take_unreliable(pair, packet, now_ns);
}

/* Packets to be sent */

static u8 *bth(struct xr_packet *made, const struct xr_queue_pair *pair, u32 opcode, u32 psn, u32 ack_request)
{
	u8 *at = made->head;

	made->to = NULL;
	made->payload = NULL;
	made->length = made->padding = 0;
	*at++ = opcode;
	*at++ = 1 << 6;
	at = put16(at, 0xffff);
	at = put32(at, pair->far_number);
	at = put32(at, ack_request << 31 | (psn & MASK24));
	if (pair->area_octets) {
		made->head[8] |= HAS_TELEMETRY;
		__builtin_memcpy(at, pair->area, pair->area_octets);
		at += pair->area_octets;
	}
	return at;
}

static u8 *put64(u8 *at, u64 value)
{
	return put32(put32(at, value >> 32), value);
}

static u8 *reth(u8 *at, u64 address, u32 r_key, u32 length)
{
	return put32(put32(put64(at, address), r_key), length);
}

/* Where octets of a region are to be read; NULL: it is only written */
static const u8 *region_read(const struct xr_queue_pair *pair, const struct xr_region *region, u64 address)
{
	if (region->kind == XR_WORDS)
		return (const u8 *)region->words + address;
	return region->kind == XR_CONTENT ? content_at(pair->memory, region, address) : NULL;
}

/* Give a packet its padding and its ICRC, where `region` and `address` say what the payload is */
static void seal(struct xr_queue_pair *pair, struct xr_packet *made, u8 *end, const struct xr_region *region,
		 u64 address)
{
	u32 crc, total;

	made->head_length = end - made->head;
	made->padding = -made->length & 3;
	made->head[1] |= made->padding << 4;
	total = made->head_length + made->length + made->padding;
	crc = headers_crc(pair, made->head, made->head_length, total, 0);
	if (made->length && is_known(pair, region, address, made->length)) {
		crc = shifted(pair->memory, crc) ^ known_crc(pair->memory, region, address);
	} else if (made->length) {
		crc = xr_crc32(crc, made->payload, made->length);
		crc = zeros(crc, made->padding);
	}
	made->icrc = crc;
}

static void acknowledge(struct xr_queue_pair *pair, struct xr_packet *made, s64 number, u32 syndrome)
{
	u8 *at = bth(made, pair, ACKNOWLEDGE, number, 0);

	at = put32(at, syndrome << 24 | (pair->responder.msn & MASK24));
	seal(pair, made, at, NULL, 0);
}

#define ACK 0x1f
#define NAK(code) (0x60 | (code))
#define RNR_NAK(code) (0x20 | (code))

/*
 * A NAK for the expected packet, and which packets behind it are there. It tells of none that may yet be refused for
 * lack of a receive: the requester would never send that again.
 */
static void selective_acknowledge(struct xr_queue_pair *pair, struct xr_packet *made)
{
	struct xr_responder *responder = &pair->responder;
	s64 begin = responder->expected + 1, first = 0, many = responder->furthest - responder->expected, place;
	u8 *at, *bits = pair->bitmap + XR_OFFSET;
	u32 words = 0;

	if (many > XR_BITMAP * 8) {
		/* All that it has room for, to the word of the latest: of others earlier ones have told */
		many = (responder->latest - begin + 32) / 32 * 32;
		first = most_of(0, many - XR_BITMAP * 8);
		many = XR_BITMAP * 8;
	}
	__builtin_memset(pair->bitmap, 0, sizeof(pair->bitmap));
	put32(pair->bitmap, first);
	for (place = 0; place < many && first + place < responder->keeps - 1; place++) {
		struct xr_early *slot = &responder->early[(begin + first + place) % responder->keeps];

		if (slot->is_there && !needs_receive(&pair->nic, slot->opcode)) {
			bits[place / 8] |= 0x80 >> place % 8;
			words = place / 32 + 1;
		}
	}
	at = bth(made, pair, SELECTIVE_ACKNOWLEDGE, responder->expected, 0);
	at = put32(at, NAK(SEQUENCE_ERROR) << 24 | (responder->msn & MASK24));
	made->payload = pair->bitmap;
	made->length = words ? XR_OFFSET + words * 4 : 0;
	seal(pair, made, at, NULL, 0);
}

/* The acknowledgement that is due, if one is. What follows a read waits until that is served. */
static int answer(struct xr_queue_pair *pair, struct xr_packet *made, s64 now_ns)
{
	struct xr_responder *responder = &pair->responder;

	if (responder->answer_ns > now_ns)
		return 0;
	if (responder->has_refusal && responder->ack_is_due) {
		responder->ack_is_due = responder->nak_is_due = responder->rnr_is_due = 0;
		acknowledge(pair, made, responder->expected, NAK(responder->refusal));
	} else if (responder->rnr_is_due) {
		responder->rnr_is_due = responder->ack_is_due = responder->nak_is_due = 0;
		acknowledge(pair, made, responder->expected, RNR_NAK(pair->nic.rnr_code));
	} else if (responder->nak_is_due) {
		responder->nak_is_due = responder->ack_is_due = 0;
		if (is_selective(pair))
			selective_acknowledge(pair, made);
		else
			acknowledge(pair, made, responder->expected, NAK(SEQUENCE_ERROR));
	} else if (responder->ack_is_due && !responder->count) {
		responder->ack_is_due = 0;
		acknowledge(pair, made, responder->expected - 1, ACK);
	} else {
		return 0;
	}
	responder->answer_ns = 0;
	return 1;
}

static void count_response(struct xr_queue_pair *pair, s64 number)
{
	if (number >= pair->responder.served) {
		pair->responder.served = number + 1;
		pair->counters.fresh++;
	} else {
		pair->counters.retransmitted++;
	}
}

static void response(struct xr_queue_pair *pair, struct xr_packet *made)
{
	struct xr_responder *responder = &pair->responder;
	struct xr_serving *serving = read_at(responder, 0);
	u32 length = least(pair->settings->mtu, serving->left), opcode;
	int is_last = serving->left == length;
	const u8 *payload;
	u8 *at;

	if (!serving->region) {
		responder->head = (responder->head + 1) % XR_MOST_READS;
		responder->count--;
		count_response(pair, serving->number);
		at = bth(made, pair, ATOMIC_ACKNOWLEDGE, serving->number, 0);
		at = put32(at, ACK << 24 | (responder->msn & MASK24));
		seal(pair, made, put64(at, serving->address), NULL, 0);
		return;
	}
	payload = region_read(pair, serving->region, serving->address);
	if (!payload) {
		responder->count = 0;
		refuse(responder, OPERATIONAL_ERROR, XR_WRITE_ONLY, length, serving->address, 0);
		responder->ack_is_due = responder->nak_is_due = responder->rnr_is_due = 0;
		acknowledge(pair, made, responder->expected, NAK(OPERATIONAL_ERROR));
		return;
	}
	if (serving->is_first)
		opcode = is_last ? RESPONSE_ONLY : RESPONSE_FIRST;
	else
		opcode = is_last ? RESPONSE_LAST : RESPONSE_MIDDLE;
	at = bth(made, pair, opcode, serving->number, 0);
	if (opcode != RESPONSE_MIDDLE)
		at = put32(at, 0x1f << 24 | (responder->msn & MASK24));
	made->payload = payload;
	made->length = length;
	seal(pair, made, at, serving->region, serving->address);
	count_response(pair, serving->number);
	serving->address += length;
	serving->left -= length;
	serving->number++;
	serving->is_first = 0;
	if (is_last) {
		responder->head = (responder->head + 1) % XR_MOST_READS;
		responder->count--;
	}
}

/* An atomic operation, or a request for the packets of a read from a number on, before another */
static void question(struct xr_queue_pair *pair, struct xr_packet *made, const struct xr_work *work, s64 number,
			 s64 until)
{
	u64 start = (number - work->first) * pair->settings->mtu;
	u64 length = least(work->length - start, (until - number) * pair->settings->mtu);
	u8 *at;

	if (is_atomic(work)) {
		at = bth(made, pair, work->operation == XR_FETCH_ADD ? FETCH_ADD : COMPARE_SWAP, number, 1);
		at = put32(put64(at, work->remote_address), work->r_key);
		at = put64(put64(at, work->data), work->compare);
	} else {
		at = bth(made, pair, READ_REQUEST, number, 1);
		at = reth(at, work->remote_address + start, work->r_key, length);
	}
	seal(pair, made, at, NULL, 0);
}

/* A packet of a write or a send; does it ask for an acknowledgement? */
static u32 data(struct xr_queue_pair *pair, struct xr_packet *made, struct xr_work *work, s64 number, s64 now_ns)
{
	struct xr_requester *requester = &pair->requester;
	const struct xr_settings *settings = pair->settings;
	u64 start = (number - work->first) * settings->mtu;
	int is_first = number == work->first, is_last = number == work->end - 1;
	int immediate = is_last && work->has_immediate, invalidates = is_last && work->has_invalidate;
	u32 opcode = (work->operation == XR_SEND ? SEND_FIRST : WRITE_FIRST) +
		     (is_last ? (is_first ? 4 : 2) : (is_first ? 0 : 1)) + immediate, ack_request;
	u8 *at;

	requester->since_ack++;
	/* At a low rate packets are so far apart that the timer would not wait for `ack_every` of them */
	ack_request = is_last || pair->rate.counts_acknowledgements || now_ns - requester->asked_ns >= shortest_timer_ns(pair) / 8 ||
		      requester->since_ack >= settings->ack_every;
	if (is_selective(pair) &&
	    (number < requester->highest || number == requester->oldest ||
	     number + 1 - requester->oldest >= requester->window))
		ack_request = 1;
	if (ack_request) {
		requester->since_ack = 0;
		requester->asked_ns = now_ns;
	}
	if (invalidates)
		opcode = is_first ? SEND_ONLY_INVALIDATE : SEND_LAST_INVALIDATE;
	at = bth(made, pair, opcode, number, ack_request);
	if (is_first && work->operation == XR_WRITE)
		at = reth(at, work->remote_address, work->r_key, work->length);
	if (immediate || invalidates)
		at = put32(at, work->immediate);
	made->length = least(settings->mtu, work->length - start);
	if (made->length)
		made->payload = region_read(pair, work->local, work->local_address + start);
	seal(pair, made, at, work->local, work->local_address + start);
	return ack_request;
}

/* A packet that was lost, or a request for the responses of a read that were */
static void request_again(struct xr_queue_pair *pair, struct xr_packet *made, s64 number, s64 now_ns)
{
	struct xr_requester *requester = &pair->requester;
	struct xr_work *work = work_of(requester, number);
	s64 until = number + 1;

	if (is_answered(work))
		while (until < least(work->end, requester->repair_end) && !*arrived_at(pair, until))
			until++;
	requester->repair = until;
	pair->counters.retransmitted++;
	if (is_answered(work))
		question(pair, made, work, number, until);
	else
		data(pair, made, work, number, now_ns);
	if (requester->timer_ns == XR_NEVER)
		requester->timer_ns = now_ns + retransmit_ns(pair);
}

/* The next packet of an unreliable service, which is then sent, and completes its work if it is the last */
static void send_unreliable(struct xr_queue_pair *pair, struct xr_packet *made)
{
	struct xr_requester *requester = &pair->requester;
	const struct xr_work *work = work_at(requester, 0);
	s64 number = requester->next;
	u64 start = (number - work->first) * pair->settings->mtu;
	int is_first = number == work->first, is_last = number == work->end - 1;
	int immediate = is_last && work->has_immediate, is_datagram = pair->service == XR_UD;
	u32 opcode = (work->operation == XR_SEND ? SEND_FIRST : WRITE_FIRST) +
		     (is_last ? (is_first ? 4 : 2) : (is_first ? 0 : 1)) + immediate;
	u8 *at = bth(made, pair, opcode | (is_datagram ? UD_OPCODES : UC_OPCODES), number, 0);

	made->to = pair->to = work->to;
	if (work->to)
		put32(made->head + 4, work->to->number);
	if (is_datagram)
		at = put32(put32(at, work->to ? work->to->q_key : pair->q_key), pair->number);
	else if (is_first && work->operation == XR_WRITE)
		at = reth(at, work->remote_address, work->r_key, work->length);
	if (immediate)
		at = put32(at, work->immediate);
	made->length = least(pair->settings->mtu, work->length - start);
	if (made->length)
		made->payload = region_read(pair, work->local, work->local_address + start);
	seal(pair, made, at, work->local, work->local_address + start);
	pair->to = NULL;
	requester->next = requester->oldest = requester->highest = number + 1;
	pair->counters.fresh++;
	if (is_last) {
		requester->head = (requester->head + 1) % XR_MOST_WORKS;
		requester->count--;
		pair->counters.completed++;
	}
}

/* The requester's next packet, which is then sent */
static void request(struct xr_queue_pair *pair, struct xr_packet *made, s64 now_ns)
{
	struct xr_requester *requester = &pair->requester;
	s64 number = !pair->service && is_selective(pair) ? lost(pair) : -1;
	struct xr_work *work;
	u32 ack_request = 1;

	if (pair->service) {
		send_unreliable(pair, made);
		return;
	}
	if (number >= 0) {
		request_again(pair, made, number, now_ns);
		return;
	}
	work = work_at(requester, requester->cursor);
	number = requester->next;
	if (number == requester->oldest)
		requester->asked_ns = now_ns;
	if (is_answered(work)) {
		requester->next = is_selective(pair) ? least(work->end, number + room(requester)) : work->end;
		question(pair, made, work, number, requester->next);
	} else {
		requester->next = number + 1;
		ack_request = data(pair, made, work, number, now_ns);
	}
	if (requester->next == work->end)
		requester->cursor++;
	if (number < requester->highest) {
		pair->counters.retransmitted++;
	} else if (ack_request && requester->timed < 0) {
		requester->timed = number;
		requester->timed_ns = now_ns;
	}
	if (requester->next > requester->highest) {
		pair->counters.fresh += requester->next - requester->highest;
		requester->highest = requester->next;
	}
	if (requester->timer_ns == XR_NEVER)
		requester->timer_ns = now_ns + retransmit_ns(pair);
}

/* The queue pair */

static void fail(struct xr_queue_pair *pair, const struct xr_failure *why)
{
	if (pair->has_failed)
		return;
	pair->has_failed = 1;
	pair->failure = *why;
	set_failure(&pair->requester.failure, why->why, why->with[0], why->with[1], why->with[2], why->with[3]);
	pair->requester.timer_ns = pair->requester.gap_ns = XR_NEVER;
	give_back(&pair->responder);
}

static u32 keeps_of(const struct xr_nic *nic)
{
	if (nic->recovery == XR_SELECTIVE_REPEAT)
		return nic->bdp_packets;
	return nic->recovery == XR_GO_BACK_N && nic->reorder_ns ? nic->reorder_packets : 0;
}

/* The octets on the wire around the payload of UDP */
static u32 around(const struct xr_queue_pair *pair)
{
	return pair->is_ipv6 ? XR_WIRE_IPV6 : XR_WIRE;
}

/* The octets of zeros that xr_start() takes for what a NIC keeps */
unsigned long xr_room(const struct xr_nic *nic, const struct xr_rate *rate, const struct xr_settings *settings)
{
	unsigned long early = keeps_of(nic) * sizeof(struct xr_early);
	unsigned long sent = rate->counts_acknowledgements ? (settings->window + 1) * sizeof(struct xr_sent) : 0;

	return sent + (nic->recovery == XR_SELECTIVE_REPEAT ? 2 * early + nic->bdp_packets : early);
}

/* Make a queue pair ready whose numbers, addresses, settings, NIC, memory and rate control its caller has set */
void xr_start(struct xr_queue_pair *pair, s64 first, s64 far_first, u64 line_bps, void *room)
{
	struct xr_requester *requester = &pair->requester;
	struct xr_rate *rate = &pair->rate;
	s64 gap_ns = (s64)(pair->settings->mtu + BTH + ICRC + around(pair)) * 8 * 1000000000 / (s64)line_bps;
	s64 packets = least(MOST_AHEAD, AHEAD_NS / most_of(1, gap_ns));

	pair->ahead_ns = packets >= LEAST_AHEAD ? packets * gap_ns : 0;
	pair->next_ns = pair->last_cnp_ns = LONG_AGO;
	pair->was_idle = 1;
	pair->drawn = pair->nic.seed;
	pair->prefix_length[0] = pair->prefix_length[1] = ~0u;
	requester->oldest = requester->next = requester->highest = requester->end = first;
	requester->went_back_to = requester->timed = requester->round_trip_ns = -1;
	requester->timer_ns = requester->gap_ns = pair->responder.gap_ns = XR_NEVER;
	requester->placed = first;
	requester->order.highest = first - 1;
	pair->responder.order.highest = far_first - 1;
	requester->window = pair->settings->window;
	pair->responder.keeps = keeps_of(&pair->nic);
	if (rate->counts_acknowledgements) {
		pair->under_way = room;
		pair->sent_room = pair->settings->window + 1;
		room = pair->under_way + pair->sent_room;
	}
	pair->sent_highest = -1;
	pair->pace = &pair->last_cnp_ns;
	pair->responder.early = room;
	if (is_selective(pair)) {
		requester->window = least(requester->window, pair->nic.bdp_packets);
		requester->early = pair->responder.early + pair->responder.keeps;
		requester->arrived = (u8 *)(requester->early + pair->nic.bdp_packets);
	}
	if (!pair->responder.receives && (pair->service || pair->nic.shares_receives))
		pair->responder.receives = &pair->responder.own_receives;
	pair->responder.begin = far_first;
	pair->notified = pair->far_number;
	pair->most_window = requester->window;
	if (rate->window)
		requester->window = least(rate->window, pair->most_window);
	pair->responder.expected = pair->responder.served = far_first;
	rate_start(rate);
}

static u32 parse(struct packet *packet, const u8 *datagram, u32 length, u32 *head_length)
{
	u32 end = length - ICRC, start = BTH, opcode, flags, padding, word;

	if (length < BTH + ICRC)
		return XR_TOO_SHORT;
	packet->opcode = opcode = datagram[0];
	packet->service = XR_RC;
	flags = datagram[1];
	if (opcode > ACKNOWLEDGE && !IS(opcode, RARE) && opcode != CNP && opcode != SELECTIVE_ACKNOWLEDGE) {
		if (SERVICE_OF(opcode) == SERVICE_OF(UC_OPCODES) && IS(opcode & 0x1f, WRITES | (SENDS & ~INVALIDATES)))
			packet->service = XR_UC;
		else if ((opcode & ~1) == (UD_OPCODES | SEND_ONLY))
			packet->service = XR_UD;
		else
			return XR_OPCODE_NOT_KNOWN;
		packet->opcode = opcode &= 0x1f;
	}
	if (flags & 0xf)
		return XR_WRONG_VERSION;
	packet->psn = get32(datagram + 8) & MASK24;
	packet->ack_request = datagram[8] >> 7;
	packet->nak = NO_NAK;
	packet->rnr = -1;
	packet->area = NULL;
	if (datagram[8] & HAS_TELEMETRY) {
		const u8 *area = datagram + start;

		if (length < start + 4 || area[0] >> 4 != AREA_VERSION ||
		    ((area[0] & 0xf) != COLLECTS && (area[0] & 0xf) != RETURNED) || area[1] > MOST_STAMPS ||
		    area[2] > area[1] || length < start + area_octets(area))
			return XR_BAD_TELEMETRY;
		packet->area = area;
		start += area_octets(area);
	}
	if (packet->service == XR_UD) {
		if (start + 8 > length)
			return XR_TOO_SHORT;
		packet->q_key = get32(datagram + start);
		packet->source = get32(datagram + start + 4) & MASK24;
		start += 8;
	}
	if (IS(opcode, WITH_RETH)) {
		if (start + 16 > length)
			return XR_TOO_SHORT;
		packet->address = get64(datagram + start);
		packet->r_key = get32(datagram + start + 8);
		packet->length = get32(datagram + start + 12);
		start += 16;
	}
	if (IS(opcode, WITH_AETH) || opcode == SELECTIVE_ACKNOWLEDGE) {
		if (start + 4 > length)
			return XR_TOO_SHORT;
		word = get32(datagram + start);
		packet->msn = word & MASK24;
		if (word >> 29 == 3 && (word >> 24 & 0x1f) <= OPERATIONAL_ERROR)
			packet->nak = word >> 24 & 0x1f;
		else if (word >> 29 == 1)
			packet->rnr = word >> 24 & 0x1f;
		else if (word >> 29)
			return XR_BAD_SYNDROME;
		start += 4;
	}
	if (opcode > ACKNOWLEDGE && IS(opcode, RARE)) {
		u32 octets = opcode == ATOMIC_ACKNOWLEDGE ? 8 : IS(opcode, ATOMICS) ? 28 : 4;

		if (start + octets > length)
			return XR_TOO_SHORT;
		if (opcode == ATOMIC_ACKNOWLEDGE) {
			packet->data = get64(datagram + start);
		} else if (octets == 4) {
			packet->immediate = get32(datagram + start);
		} else {
			packet->address = get64(datagram + start);
			packet->r_key = get32(datagram + start + 8);
			packet->length = XR_WORD;
			packet->data = get64(datagram + start + 12);
			packet->compare = get64(datagram + start + 20);
		}
		start += octets;
	}
	if (IS(opcode, WITH_IMMEDIATE)) {
		if (start + 4 > length)
			return XR_TOO_SHORT;
		packet->immediate = get32(datagram + start);
		start += 4;
	}
	if (start > end)
		return XR_TOO_SHORT;
	padding = flags >> 4 & 3;
	if (end - start < padding || (end - start) % 4)
		return XR_BAD_PADDING;
	packet->payload = datagram + start;
	packet->octets = end - start - padding;
	*head_length = start;
	return XR_TAKEN;
}

/* Where the content of a payload is that is to come next, if it is known what that is */
static struct xr_region *expected_region(struct xr_queue_pair *pair, const struct packet *packet, u64 *address)
{
	struct xr_responder *responder = &pair->responder;
	struct xr_region *region = NULL;

	if (IS(packet->opcode, RESPONSES)) {
		struct xr_requester *requester = &pair->requester;

		if (requester->count && is_answered(work_at(requester, 0)))
			region = work_at(requester, 0)->local;
	} else if (IS(packet->opcode, SENDS)) {
		region = responder->receive_into;
	} else if (IS(packet->opcode, WITH_RETH & WRITES)) {
		region = region_of(pair, packet);
	} else if (IS(packet->opcode, WRITES) && responder->has_message) {
		region = responder->region;
	}
	if (!region || region->kind != XR_SINK)
		return NULL;
	*address = region->next;
	return region;
}

static int is_intact(struct xr_queue_pair *pair, const struct packet *packet, const u8 *datagram, u32 length,
		     u32 head_length)
{
	u32 crc = headers_crc(pair, datagram, head_length, length - ICRC, 1), rest = length - ICRC - head_length;
	const u8 *sent = datagram + length - ICRC;
	struct xr_region *region;
	u64 address;

	if (rest) {
		region = rest == packet->octets ? expected_region(pair, packet, &address) : NULL;
		if (region && is_known(pair, region, address, rest) &&
		    equal(packet->payload, content_at(pair->memory, region, address), rest))
			crc = shifted(pair->memory, crc) ^ known_crc(pair->memory, region, address);
		else
			crc = xr_crc32(crc, packet->payload, rest);
	}
	return sent[0] == (crc & 0xff) && sent[1] == (crc >> 8 & 0xff) && sent[2] == (crc >> 16 & 0xff) &&
	       sent[3] == crc >> 24;
}

static void owe_notification(struct xr_queue_pair *pair, s64 now_ns)
{
	s64 due_ns = 0;

	if (pair->nic.cnp_ns ? pair->cnps_count == XR_MOST_CNPS : pair->cnps_count)
		return;
	if (pair->nic.cnp_ns) {
		due_ns = now_ns + delay(pair, pair->nic.cnp_ns);
		if (pair->cnps_count)
			due_ns = most_of(due_ns, pair->cnps_due_ns[(pair->cnps_head + pair->cnps_count - 1) %
								   XR_MOST_CNPS]);
	}
	pair->cnps_due_ns[(pair->cnps_head + pair->cnps_count++) % XR_MOST_CNPS] = due_ns;
}

/* The next acknowledgement brings back what a packet has collected */
static void return_area(struct xr_queue_pair *pair, const u8 *area)
{
	u8 *at = pair->returned;

	pair->returned_octets = area_octets(area);
	__builtin_memset(at, 0, pair->returned_octets);
	at[0] = AREA_VERSION << 4 | RETURNED;
	at[1] = area[1];
	at[2] = area[2];
	at[3] = area[3] & 1;
	__builtin_memcpy(at + 4, area + 4, area[2] * STAMP);
}

/* A packet of data that is not intact and came with a DSCP of rests: a switch has trimmed it */
static int is_rest(const struct xr_queue_pair *pair, const u8 *datagram, u32 ds_field)
{
	u32 opcode = datagram[0], sends = WRITES | (SENDS & ~INVALIDATES);

	if (!(pair->settings->rests >> (ds_field >> 2) & 1))
		return 0;
	return IS(opcode, REQUESTS | RESPONSES) || (opcode & ~1) == (UD_OPCODES | SEND_ONLY) ||
	       (SERVICE_OF(opcode) == SERVICE_OF(UC_OPCODES) && IS(opcode & 0x1f, sends));
}

/* Take what came to this queue pair, and with which DS field; XR_TAKEN, or why it is refused */
int xr_receive(struct xr_queue_pair *pair, const u8 *datagram, u32 length, u32 ds_field, s64 now_ns)
{
	struct xr_requester *requester = &pair->requester;
	struct packet packet;
	u32 head_length, refused = parse(&packet, datagram, length, &head_length);
	u64 went_back = pair->counters.went_back;
	s64 before = requester->oldest;

	if (pair->has_failed)
		return refused ?: XR_NOT_READY;
	if (!refused && !is_intact(pair, &packet, datagram, length, head_length))
		refused = XR_BAD_ICRC;
	if (refused && length >= BTH && is_rest(pair, datagram, ds_field)) {
		pair->counters.trimmed++;
		return XR_TRIMMED;
	}
	if (refused)
		return refused;
	if (packet.service != pair->service && packet.opcode != CNP)
		return XR_OTHER_SERVICE;
	if (IS(packet.opcode, REQUESTS | RESPONSES)) {
		pair->counters.received_packets++;
		pair->counters.received_octets += packet.octets;
		if ((ds_field & 3) == CE) {
			pair->counters.marked++;
			if (now_ns - *pair->pace >= pair->settings->cnp_ns) {
				*pair->pace = now_ns;
				owe_notification(pair, now_ns);
			}
		}
	}
	if (IS(packet.opcode, REQUESTS) && packet.area)
		return_area(pair, packet.area);
	if (pair->service && packet.opcode != CNP) {
		on_unreliable(pair, &packet, now_ns);
	} else if (IS(packet.opcode, REQUESTS)) {
		on_request(pair, &packet, now_ns);
	} else if (IS(packet.opcode, RESPONSES)) {
		on_read_response(pair, &packet, now_ns);
	} else if (packet.opcode == CNP) {
		pair->counters.cnps_received++;
		xr_on_cnp(pair, now_ns);
	} else if (packet.rnr >= 0) {
		on_rnr(pair, &packet, now_ns);
	} else if (packet.nak == NO_NAK) {
		on_ack(pair, packet.psn, now_ns);
	} else {
		pair->counters.sequence_naks += packet.nak == SEQUENCE_ERROR;
		on_nak(pair, &packet, now_ns);
	}
	if (requester->round_trip_ns >= 0) {
		rate_on_round_trip(&pair->rate, now_ns, requester->round_trip_ns);
		tell(pair, &(struct xr_event) {
			.kind = XR_ROUND_TRIP, .now_ns = now_ns, .round_trip_ns = requester->round_trip_ns,
		});
		requester->round_trip_ns = -1;
	}
	if (pair->rate.counts_acknowledgements) {
		if (pair->counters.went_back != went_back)
			tell_loss(pair, now_ns);
		if (requester->oldest > before)
			tell_acknowledged(pair, before, packet.area, now_ns);
	}
	if (requester->failure.why)
		fail(pair, &requester->failure);
	return XR_TAKEN;
}

/* The moment at which the next CNP is due */
s64 xr_notification_ns(const struct xr_queue_pair *pair)
{
	return pair->cnps_count ? pair->cnps_due_ns[pair->cnps_head] : XR_NEVER;
}

/* The CNP that is due, if one is. It goes with a priority and DSCP of its own. */
int xr_notification(struct xr_queue_pair *pair, s64 now_ns, xr_emit emit, void *context)
{
	static const u8 nothing[16];
	struct xr_packet made;
	u8 *at;

	if (xr_notification_ns(pair) > now_ns)
		return 0;
	pair->cnps_head = (pair->cnps_head + 1) % XR_MOST_CNPS;
	pair->cnps_count--;
	pair->counters.cnps_sent++;
	at = bth(&made, pair, CNP, 0, 0);
	put32(made.head + 4, pair->notified);
	made.head[4] = 1 << 6;	/* BECN */
	made.payload = nothing;
	made.length = sizeof(nothing);
	made.head_length = at - made.head;
	made.icrc = xr_crc32(headers_crc(pair, made.head, BTH, BTH + sizeof(nothing), 0), nothing, sizeof(nothing));
	emit(context, &made);
	return 1;
}

/* A rate control that slows down has each packet sent at its time */
static s64 ahead(const struct xr_queue_pair *pair)
{
	return pair->rate.rate_bps >= pair->rate.line_bps ? pair->ahead_ns : 0;
}

/* An acknowledgement, with what the newest packet has collected on its way */
static int answer_with_area(struct xr_queue_pair *pair, struct xr_packet *made, s64 now_ns)
{
	int is_made;

	pair->area = pair->returned;
	pair->area_octets = pair->returned_octets;
	is_made = answer(pair, made, now_ns);
	if (is_made)
		pair->returned_octets = 0;
	pair->area_octets = 0;
	return is_made;
}

/* The requester's next packet, noted and with room for telemetry if the rate control wants that */
static void send_request(struct xr_queue_pair *pair, struct xr_packet *made, s64 now_ns)
{
	static const u8 collects[4 + ROOM * STAMP] = { AREA_VERSION << 4 | COLLECTS, ROOM };

	pair->area = collects;
	pair->area_octets = pair->rate.needs_telemetry ? sizeof(collects) : 0;
	request(pair, made, now_ns);
	pair->area_octets = 0;
	if (pair->rate.counts_acknowledgements)
		note_sent(pair, sequence(get32(made->head + 8) & MASK24, pair->requester.oldest), now_ns);
}

/* Hand out datagrams to be sent now: an acknowledgement, and data as far as the pace allows */
int xr_transmit(struct xr_queue_pair *pair, s64 now_ns, int most, xr_emit emit, void *context)
{
	struct xr_requester *requester = &pair->requester;
	struct xr_responder *responder = &pair->responder;
	struct xr_packet made;
	s64 until_ns;
	u64 went_back = pair->counters.went_back;
	int many = 0;

	on_timer(pair, now_ns);
	responder_on_timer(pair, now_ns);
	if (requester->failure.why)
		fail(pair, &requester->failure);
	if (pair->counters.went_back != went_back)
		tell_loss(pair, now_ns);
	bring_up(pair, now_ns);
	if (pair->has_failed)
		return 0;
	if (answer_with_area(pair, &made, now_ns)) {
		emit(context, &made);
		many++;
	}
	until_ns = now_ns + ahead(pair);
	while (many < most && pair->next_ns <= until_ns) {
		u32 octets;

		if (responder->count) {
			response(pair, &made);
		} else if (ready_ns(pair) <= now_ns) {
			send_request(pair, &made, now_ns);
		} else {
			pair->was_idle = 1;
			break;
		}
		octets = made.head_length + made.length + made.padding + ICRC + around(pair);
		pair->next_ns = xr_rate_next(&pair->rate, pair->next_ns, pair->was_idle, octets, now_ns);
		pair->was_idle = 0;
		pair->counters.sent_packets++;
		pair->counters.sent_octets += made.length;
		tell(pair, &(struct xr_event) { .kind = XR_SENT, .now_ns = now_ns, .octets = octets });
		emit(context, &made);
		many++;
	}
	if (!responder->count && answer_with_area(pair, &made, now_ns)) {
		emit(context, &made);
		many++;
	}
	if (responder->failure.why)
		fail(pair, &responder->failure);
	return many;
}

/* The latest moment at which xr_transmit() or xr_notification() has something to do; 0 if now */
s64 xr_deadline(const struct xr_queue_pair *pair)
{
	const struct xr_responder *responder = &pair->responder;
	s64 deadline_ns, packet_ns;

	if (pair->has_failed)
		return XR_NEVER;
	deadline_ns = least(xr_notification_ns(pair), answer_ns(responder));
	if (!responder->gap_is_told)
		deadline_ns = least(deadline_ns, responder->gap_ns);
	deadline_ns = least(deadline_ns, least(pair->requester.timer_ns, pair->requester.gap_ns));
	deadline_ns = least(deadline_ns, rate_deadline(&pair->rate));
	packet_ns = responder->count ? 0 : ready_ns(pair);
	if (packet_ns != XR_NEVER)
		deadline_ns = least(deadline_ns, most_of(packet_ns, pair->next_ns - ahead(pair) / 3));
	return deadline_ns;
}

/* Keep messages of a flow under way, until it has been sent; as Asker.post() of roce_flow.py */
void xr_ask(struct xr_asker *asker, struct xr_queue_pair *pair, s64 now_ns, int may_send,
	    int (*may_post)(void *context, s64 blocks), void *context)
{
	struct xr_requester *requester = &pair->requester;
	struct xr_work work = {
		.local = asker->local, .r_key = asker->key,
		.has_immediate = asker->has_immediate, .immediate = asker->immediate,
	};
	s64 ahead = asker->message / pair->settings->mtu;
	int waits;

	if (asker->is_over)
		return;
	if (pair->has_failed || (now_ns < asker->begin_ns && !may_send)) {
		asker->is_over = 1;
		return;
	}
	if (now_ns < asker->begin_ns)
		return;
#define MAY_POST may_post(context, (s64)(asker->posted / asker->message) + 1 - asker->lag)
	while (requester->end - requester->next <= ahead && requester->count < UNDER_WAY && MAY_POST) {
		work.length = asker->message < asker->left ? asker->message : asker->left;
		if (!work.length || !asker->messages || now_ns >= asker->end_ns || !may_send)
			break;
		work.operation = asker->operation;
		work.local_address = work.remote_address = asker->posted;
		if (asker->operation >= XR_COMPARE_SWAP) {
			/* One word counts the messages: those that were done twice, or not at all, would show */
			work.remote_address = 0;
			work.compare = asker->operation == XR_COMPARE_SWAP ? asker->posted / XR_WORD : 0;
			work.data = work.compare + 1;
		}
		xr_post(pair, &work, now_ns);
		asker->posted += work.length;
		asker->left -= work.length;
		asker->messages--;
	}
	/* A flow that waits for others has more to send, unless all has been posted */
	waits = asker->left && asker->messages && now_ns < asker->end_ns && may_send && !MAY_POST;
#undef MAY_POST
	if (requester->count || waits)
		return;
	if (asker->operation == XR_READ && !asker->has_ended) {
		asker->has_ended = 1;	/* the source cannot know otherwise */
		work.operation = XR_SEND;
		work.length = work.local_address = work.remote_address = 0;
		work.has_immediate = 1;
		work.immediate = 0;
		xr_post(pair, &work, now_ns);
	} else {
		asker->is_over = 1;
	}
}

unsigned long xr_queue_pair_size(void)
{
	return sizeof(struct xr_queue_pair);
}
