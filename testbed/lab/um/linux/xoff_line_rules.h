/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A cable with errors and Link Layer Retry: two ends, and what is on the line between them. The rules know no clock,
 * socket or frame but their caller's, who includes this file and has the functions that are declared first: the qdisc
 * in the kernel (xoff_line_kern.c), and the library of tests (xoff_line_library.c).
 *
 * Stated in: testbed/subjects/link/llr/line.py, testbed/subjects/link/llr/end.py,
 * testbed/subjects/link/llr/cable.py.
 * Compared by: tests/unit/subjects/link/llr/test_rules_in_c.py.
 */
#ifndef __XOFF_LINE_RULES_H
#define __XOFF_LINE_RULES_H

#include "xoff_line.h"

#define XL_NEVER ((s64)(~0ULL >> 1))
#define XL_SEQUENCES (1U << 20)
#define XL_MOST_DATA 0xFFFF
#define XL_NO_LIMIT 255
#define XL_OVERHEAD 24		/* octets of a frame on the line beside those that Linux counts, */
#define XL_GAP 12		/* and those of them that are idle */
#define XL_FCS 4
#define XL_HEADER (8 + 64)
#define XL_SET_OCTETS 8
#define XL_LEAST_SPACING 400
#define XL_AHEAD_NS 65
#define XL_LOSS 0x6C6F7373	/* makes the hashes for losses others than those for errors */

enum xl_what { XL_ACK = 1, XL_NACK, XL_INIT, XL_ECHO, XL_FRAME };
enum xl_fate { XL_CAME, XL_LOST, XL_DAMAGED, XL_POISONED, XL_FROZEN };
/* What of LLR an end does: it numbers what it sends, takes numbered frames; its frames go unnumbered all the same */
enum xl_mode { XL_SENDS = 1, XL_RECEIVES = 2, XL_UNNUMBERED = 4 };
enum xl_wait { XL_FIRST_BIT, XL_WAIT_HEADER, XL_WHOLE };
enum xl_action { XL_DISCARD, XL_BLOCK, XL_BEST_EFFORT };
enum xl_sender { XL_TX_OFF, XL_TX_INIT, XL_TX_ADVANCE, XL_TX_REPLAY, XL_TX_FLUSH };
enum xl_receiver { XL_RX_OFF, XL_RX_ACKS, XL_RX_NACKED };

/* As in testbed/switch/link/counters.py */
enum {
	XL_C_TX_INIT, XL_C_TX_ECHO, XL_C_TX_ACK, XL_C_TX_NACK, XL_C_TX_DISCARD, XL_C_TX_OK, XL_C_TX_POISONED,
	XL_C_TX_REPLAY, XL_C_RX_INIT, XL_C_RX_ECHO, XL_C_RX_ACK, XL_C_RX_NACK, XL_C_RX_SEQ_ERROR, XL_C_RX_OK,
	XL_C_RX_POISONED, XL_C_RX_BAD, XL_C_RX_EXPECTED_GOOD, XL_C_RX_EXPECTED_POISONED, XL_C_RX_EXPECTED_BAD,
	XL_C_RX_MISSING, XL_C_RX_DUPLICATE, XL_C_RX_REPLAY
};

/* A frame at its sender; it is there until it is neither kept nor held, and nothing on the line is of it */
struct xl_frame {
	struct xl_frame *next;
	void *content;
	s64 sent_ns;
	u32 length, sequence, flying, users;
	u8 has_sequence, is_given_up, is_settled;
};

struct xl_frames {
	struct xl_frame *first, *last;
	u32 count;
};

/* Something on its way to the other end */
struct xl_carried {
	struct xl_carried *next, *before;
	s64 at_ns;
	u32 what, fate, sequence, data;
	struct xl_frame *frame;
};

struct xl_end {
	struct xl_settings given;
	struct xl_report report;
	u64 free_ps;
	s64 set_ns;
	u64 put[XL_FRAME + 1], put_frames;
	struct xl_carried *first, *last;	/* on the line, by their arrival */
	struct xl_frames kept, held;
	struct xl_frame *replay;		/* the next one to be replayed */
	u32 next_sequence, octets, replays, init_data, expected, last_seen, acknowledged;
	u8 has_seen, is_stopped;
	s64 timer_ns, ack_ns, ack_from_ns;
};

struct xl_cable {
	struct xl_end ends[2];
	s64 now_ns;
};

static void *xl_allocate(u32 size);
static void xl_free(void *memory);
/* A frame of this end is passed on at the other one, or comes no more */
static void xl_pass(struct xl_cable *cable, u32 number, struct xl_frame *frame, s64 now_ns);
static void xl_lose(struct xl_cable *cable, u32 number, struct xl_frame *frame);
static u64 xl_multiplied(u64 one, u64 other, u64 divisor);
/* Something has been put on the line of an end */
static void xl_note(struct xl_cable *cable, u32 number, s64 now_ns, const struct xl_carried *carried);

/* The line */

static u64 xl_mixed(u64 seed, u64 number)
{
	u64 word = seed + number * 0x9E3779B97F4A7C15ULL;

	word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9ULL;
	word = (word ^ word >> 27) * 0x94D049BB133111EBULL;
	return word ^ word >> 31;
}

static u64 xl_time_ps(const struct xl_end *end, u64 octets)
{
	return (octets * 8000000000000ULL + end->given.bps - 1) / end->given.bps;
}

static s64 xl_up_ns(u64 ps)
{
	return (ps + 999) / 1000;
}

static s64 xl_time_ns(const struct xl_end *end, u64 octets)
{
	return xl_up_ns(xl_time_ps(end, octets));
}

static s64 xl_free_ns(const struct xl_end *end)
{
	return xl_up_ns(end->free_ps);
}

static bool xl_is_damaged(const struct xl_end *end, u64 begin_ps, u32 octets)
{
	const struct xl_settings *given = &end->given;
	u64 place, slot, last;

	if (!given->slot_octets)
		return false;
	place = xl_multiplied(begin_ps / 1000, given->bps, 8000000000ULL);
	last = (place + octets - 1) / given->slot_octets;
	for (slot = place / given->slot_octets; slot <= last; slot++)
		if (xl_mixed(given->seed, slot) < given->slot_threshold)
			return true;
	return false;
}

static u32 xl_fate_of(struct xl_end *end, u32 what, u64 begin_ps, u32 octets)
{
	u64 number = ++end->put[what];
	u32 i;

	for (i = 0; i < XL_JAMS; i++) {
		const struct xl_jam *jam = &end->given.jams[i];

		if (jam->what == what && number >= jam->first && number < (u64)jam->first + jam->count)
			return jam->fate;
	}
	return xl_is_damaged(end, begin_ps, octets) ? XL_DAMAGED : XL_CAME;
}

static u64 xl_later(u64 one, u64 other)
{
	return one > other ? one : other;
}

static s64 xl_put_frame(struct xl_end *end, s64 now_ns, u32 length, bool is_numbered, u32 *fate)
{
	u64 begin_ps = xl_later(now_ns * 1000ULL, end->free_ps), seen_ps;

	end->free_ps = begin_ps + xl_time_ps(end, length + XL_OVERHEAD);
	end->put_frames++;
	if (is_numbered)
		*fate = xl_fate_of(end, XL_FRAME, begin_ps, length + XL_OVERHEAD - XL_GAP);
	else
		*fate = xl_is_damaged(end, begin_ps, length + XL_OVERHEAD - XL_GAP) ? XL_DAMAGED : XL_CAME;
	if (*fate == XL_CAME && end->given.loss && xl_mixed(end->given.seed ^ XL_LOSS, end->put_frames) < end->given.loss)
		*fate = XL_LOST;
	if (*fate == XL_DAMAGED || end->given.wait == XL_WHOLE)
		seen_ps = end->free_ps;
	else
		seen_ps = begin_ps + (end->given.wait == XL_WAIT_HEADER ? xl_time_ps(end, XL_HEADER) : 0);
	return xl_up_ns(seen_ps) + end->given.delay_ns;
}

static s64 xl_put_set(struct xl_end *end, s64 now_ns, u32 what, u32 *fate)
{
	u64 taken_ps = xl_time_ps(end, XL_SET_OCTETS);
	s64 begin_ns = now_ns > end->set_ns ? now_ns : end->set_ns;

	end->set_ns = begin_ns + xl_time_ns(end, XL_LEAST_SPACING);
	end->free_ps = xl_later(end->free_ps, now_ns * 1000ULL) + taken_ps;
	*fate = xl_fate_of(end, what, begin_ns * 1000ULL, XL_SET_OCTETS);
	return begin_ns + xl_up_ns(taken_ps) + end->given.delay_ns;
}

/* Frames and what is on the line */

static void xl_leave(struct xl_frame *frame)
{
	if (!--frame->users)
		xl_free(frame);
}

static void xl_append(struct xl_frames *frames, struct xl_frame *frame)
{
	frame->next = 0;
	if (frames->last)
		frames->last->next = frame;
	else
		frames->first = frame;
	frames->last = frame;
	frames->count++;
}

static struct xl_frame *xl_take_first(struct xl_frames *frames)
{
	struct xl_frame *frame = frames->first;

	frames->first = frame->next;
	if (!frames->first)
		frames->last = 0;
	frames->count--;
	return frame;
}

static void xl_settle(struct xl_cable *cable, u32 number, struct xl_frame *frame)
{
	if (frame->is_given_up && !frame->flying && !frame->is_settled) {
		frame->is_settled = 1;
		xl_lose(cable, number, frame);
	}
}

static void xl_give_up(struct xl_cable *cable, u32 number, struct xl_frame *frame)
{
	frame->is_given_up = 1;
	xl_settle(cable, number, frame);
}

static void xl_carry(struct xl_cable *cable, u32 number, s64 now_ns, const struct xl_carried *given)
{
	struct xl_end *end = &cable->ends[number];
	struct xl_frame *frame = given->frame;
	struct xl_carried *carried, *before;

	xl_note(cable, number, now_ns, given);
	if (frame && given->fate == XL_LOST)
		end->report.lost++;
	else if (frame && given->fate == XL_DAMAGED)
		end->report.damaged++;
	if (frame && (given->fate == XL_CAME || given->fate == XL_POISONED)) {
		frame->flying++;
	} else if (given->fate != XL_CAME && (!frame || !frame->has_sequence || given->fate == XL_LOST)) {
		if (frame && !frame->has_sequence)
			xl_give_up(cable, number, frame);
		return;
	}
	carried = xl_allocate(sizeof(*carried));
	if (!carried) {		/* the line has lost it */
		if (frame && given->fate != XL_DAMAGED) {
			frame->flying--;
			if (!frame->has_sequence)
				xl_give_up(cable, number, frame);
		}
		return;
	}
	*carried = *given;
	if (frame)
		frame->users++;
	for (before = end->last; before && before->at_ns > carried->at_ns; before = before->before)
		;
	carried->before = before;
	carried->next = before ? before->next : end->first;
	if (carried->next)
		carried->next->before = carried;
	else
		end->last = carried;
	if (before)
		before->next = carried;
	else
		end->first = carried;
}

/* Sending */

static void xl_send_set(struct xl_cable *cable, u32 number, s64 now_ns, u32 what, u32 sequence, u32 data)
{
	static const u8 counters[] = { 0, XL_C_TX_ACK, XL_C_TX_NACK, XL_C_TX_INIT, XL_C_TX_ECHO };
	struct xl_end *end = &cable->ends[number];
	struct xl_carried carried = { .what = what, .sequence = sequence, .data = data };

	end->report.counters[counters[what]]++;
	carried.at_ns = xl_put_set(end, now_ns, what, &carried.fate);
	if (carried.fate == XL_FROZEN) {
		carried.sequence = end->acknowledged;
		carried.fate = XL_CAME;
	} else if (what == XL_ACK) {
		end->acknowledged = sequence;
	}
	xl_carry(cable, number, now_ns, &carried);
}

static void xl_send_init(struct xl_cable *cable, u32 number, s64 now_ns)
{
	struct xl_end *end = &cable->ends[number];

	xl_send_set(cable, number, now_ns, XL_INIT, end->next_sequence, end->init_data);
	end->timer_ns = now_ns + end->given.replay_timer_ns;
}

static void xl_start(struct xl_cable *cable, u32 number, s64 now_ns)
{
	struct xl_end *end = &cable->ends[number];

	end->report.state = XL_TX_INIT;
	end->init_data = end->init_data % XL_MOST_DATA + 1;
	xl_send_init(cable, number, now_ns);
}

static void xl_send_plain(struct xl_cable *cable, u32 number, struct xl_frame *frame, s64 now_ns)
{
	struct xl_end *end = &cable->ends[number];
	struct xl_carried carried = { .what = XL_FRAME, .frame = frame };

	carried.at_ns = xl_put_frame(end, now_ns, frame->length, false, &carried.fate);
	xl_carry(cable, number, now_ns, &carried);
}

static void xl_transmit(struct xl_cable *cable, u32 number, struct xl_frame *frame, s64 now_ns)
{
	struct xl_end *end = &cable->ends[number];
	struct xl_carried carried = { .what = XL_FRAME, .sequence = frame->sequence, .frame = frame };

	carried.at_ns = xl_put_frame(end, now_ns, frame->length, true, &carried.fate);
	end->report.counters[carried.fate == XL_POISONED ? XL_C_TX_POISONED : XL_C_TX_OK]++;
	xl_carry(cable, number, now_ns, &carried);
}

static u32 xl_action_of(const struct xl_end *end)
{
	return end->report.state == XL_TX_INIT ? end->given.init_action : end->given.flush_action;
}

static bool xl_may_take(const struct xl_end *end)
{
	if (end->report.state == XL_TX_ADVANCE)
		return end->kept.count < end->given.frames;
	if (end->report.state == XL_TX_OFF)
		return true;
	return (end->report.state == XL_TX_INIT || end->report.state == XL_TX_FLUSH) && xl_action_of(end) != XL_BLOCK;
}

static bool xl_has_room(const struct xl_end *end, const struct xl_frame *frame)
{
	return end->report.state != XL_TX_ADVANCE || !end->kept.count ||
	       (u64)end->octets + frame->length + XL_FCS <= end->given.octets;
}

static void xl_take(struct xl_cable *cable, u32 number, struct xl_frame *frame, s64 now_ns)
{
	struct xl_end *end = &cable->ends[number];

	if (end->report.state == XL_TX_ADVANCE) {
		frame->sequence = end->next_sequence;
		frame->has_sequence = 1;
		frame->sent_ns = now_ns;
		end->next_sequence = (end->next_sequence + 1) % XL_SEQUENCES;
		xl_append(&end->kept, frame);
		end->octets += frame->length + XL_FCS;
		xl_transmit(cable, number, frame, now_ns);
		if (end->timer_ns == XL_NEVER)
			end->timer_ns = xl_free_ns(end) + end->given.replay_timer_ns;
		return;
	}
	if (end->report.state != XL_TX_OFF && xl_action_of(end) == XL_DISCARD) {
		end->report.counters[XL_C_TX_DISCARD]++;
		xl_give_up(cable, number, frame);
	} else {
		xl_send_plain(cable, number, frame, now_ns);
	}
	xl_leave(frame);
}

/* Take a frame of the port; `frame` has one user, which it was made for */
static void xl_offer(struct xl_cable *cable, u32 number, struct xl_frame *frame, bool is_eligible, s64 now_ns)
{
	struct xl_end *end = &cable->ends[number];

	if (!is_eligible || end->given.has_llr & XL_UNNUMBERED || (end->report.state == XL_TX_OFF && !end->held.count)) {
		xl_send_plain(cable, number, frame, now_ns);
		xl_leave(frame);
	} else if (end->held.count || !xl_may_take(end) || !xl_has_room(end, frame) ||
		   xl_free_ns(end) > now_ns + XL_AHEAD_NS) {
		xl_append(&end->held, frame);
		end->is_stopped = 1;
	} else {
		xl_take(cable, number, frame, now_ns);
	}
}

/* Replay */

static void xl_end_replay(struct xl_end *end)
{
	end->report.state = XL_TX_ADVANCE;
	end->replay = 0;
	end->timer_ns = end->kept.count ? xl_free_ns(end) + end->given.replay_timer_ns : XL_NEVER;
}

static bool xl_acknowledge(struct xl_end *end, u32 count, s64 now_ns)
{
	u32 i;

	if ((end->report.state != XL_TX_ADVANCE && end->report.state != XL_TX_REPLAY) || count > end->kept.count) {
		end->report.counters[XL_C_RX_SEQ_ERROR]++;
		return false;
	}
	for (i = 0; i < count; i++) {
		struct xl_frame *frame = xl_take_first(&end->kept);

		if (end->replay == frame)
			end->replay = end->kept.first;
		end->octets -= frame->length + XL_FCS;
		xl_leave(frame);
	}
	if (count) {
		end->replays = 0;
		if (end->report.state == XL_TX_ADVANCE)
			end->timer_ns = end->kept.count ? now_ns + end->given.replay_timer_ns : XL_NEVER;
		else if (!end->replay)
			xl_end_replay(end);
	}
	return true;
}

/* Give up all that is kept */
static void xl_drop(struct xl_cable *cable, u32 number, u32 state)
{
	struct xl_end *end = &cable->ends[number];

	end->report.counters[XL_C_TX_DISCARD] += end->kept.count;
	end->report.state = state;
	end->timer_ns = XL_NEVER;
	end->replays = end->octets = 0;
	end->replay = 0;
	while (end->kept.count) {
		struct xl_frame *frame = xl_take_first(&end->kept);

		xl_give_up(cable, number, frame);
		xl_leave(frame);
	}
}

static void xl_flush(struct xl_cable *cable, u32 number, s64 now_ns)
{
	struct xl_end *end = &cable->ends[number];

	end->report.flushes++;
	xl_drop(cable, number, XL_TX_FLUSH);
	if (end->given.re_init)
		xl_start(cable, number, now_ns);
}

/* Take other settings. What LLR is switched off for ends: the sender gives up what it keeps, the receiver its number */
static void xl_change(struct xl_cable *cable, u32 number, const struct xl_settings *given, s64 now_ns)
{
	struct xl_end *end = &cable->ends[number];
	u32 had = end->given.has_llr;

	end->given = *given;
	if (had & ~given->has_llr & XL_SENDS)
		xl_drop(cable, number, XL_TX_OFF);
	if (had & ~given->has_llr & XL_RECEIVES) {
		end->report.receiver = XL_RX_OFF;
		end->ack_ns = XL_NEVER;
	}
	if (~had & given->has_llr & XL_SENDS)
		xl_start(cable, number, now_ns);
}

static void xl_replay(struct xl_cable *cable, u32 number, s64 now_ns)
{
	struct xl_end *end = &cable->ends[number];

	if (end->given.replay_count != XL_NO_LIMIT && end->replays >= end->given.replay_count) {
		xl_flush(cable, number, now_ns);
		return;
	}
	end->replays++;
	end->report.counters[XL_C_TX_REPLAY]++;
	end->report.state = XL_TX_REPLAY;
	end->replay = end->kept.first;
	end->timer_ns = XL_NEVER;
}

/* Receiving */

static s32 xl_ahead(u32 one, u32 other)
{
	return (s32)((one - other + XL_SEQUENCES / 2) % XL_SEQUENCES) - (s32)(XL_SEQUENCES / 2);
}

static void xl_ask(struct xl_cable *cable, u32 number, s64 now_ns)
{
	struct xl_end *end = &cable->ends[number];

	end->report.receiver = XL_RX_NACKED;
	end->ack_ns = XL_NEVER;
	xl_send_set(cable, number, now_ns, XL_NACK, end->expected, 0);
}

static void xl_ack_later(struct xl_end *end, s64 now_ns)
{
	if (end->ack_ns == XL_NEVER)
		end->ack_ns = now_ns > end->ack_from_ns ? now_ns : end->ack_from_ns;
}

static void xl_receive_set(struct xl_cable *cable, u32 number, const struct xl_carried *carried, s64 now_ns)
{
	static const u8 counters[] = { 0, XL_C_RX_ACK, XL_C_RX_NACK, XL_C_RX_INIT, XL_C_RX_ECHO };
	struct xl_end *end = &cable->ends[number];
	u32 oldest = end->next_sequence - end->kept.count;

	end->report.counters[counters[carried->what]]++;
	switch (carried->what) {
	case XL_INIT:
		if (!(end->given.has_llr & XL_RECEIVES))	/* so it has no echo */
			break;
		end->expected = carried->sequence;
		end->has_seen = 0;
		end->acknowledged = (carried->sequence - 1) % XL_SEQUENCES;
		end->report.receiver = XL_RX_ACKS;
		end->ack_ns = XL_NEVER;
		xl_send_set(cable, number, now_ns, XL_ECHO, carried->sequence, carried->data);
		break;
	case XL_ECHO:
		if (end->report.state == XL_TX_INIT && carried->sequence == end->next_sequence &&
		    carried->data == end->init_data) {
			end->report.state = XL_TX_ADVANCE;
			end->timer_ns = XL_NEVER;
		}
		break;
	case XL_ACK:
		xl_acknowledge(end, (carried->sequence - oldest + 1) % XL_SEQUENCES, now_ns);
		break;
	default:
		if (xl_acknowledge(end, (carried->sequence - oldest) % XL_SEQUENCES, now_ns) && end->kept.count)
			xl_replay(cable, number, now_ns);
	}
}

/* True if it is the frame that is expected, which is passed on */
static bool xl_receive_frame(struct xl_cable *cable, u32 number, u32 sequence, u32 fate, s64 now_ns)
{
	struct xl_end *end = &cable->ends[number];
	u64 *counters = end->report.counters;
	bool begins;
	s32 ahead;

	if (end->report.receiver == XL_RX_OFF)
		return false;
	begins = end->has_seen && xl_ahead(sequence, end->last_seen) <= 0;
	end->has_seen = 1;
	end->last_seen = sequence;
	counters[XL_C_RX_REPLAY] += begins;
	ahead = xl_ahead(sequence, end->expected);
	if (fate == XL_DAMAGED) {
		counters[XL_C_RX_BAD]++;
		counters[XL_C_RX_EXPECTED_BAD] += !ahead;
		if (end->report.receiver == XL_RX_ACKS || begins || !ahead)
			xl_ask(cable, number, now_ns);
		return false;
	}
	counters[fate == XL_POISONED ? XL_C_RX_POISONED : XL_C_RX_OK]++;
	if (ahead > 0) {
		counters[XL_C_RX_MISSING]++;
		if (end->report.receiver == XL_RX_ACKS || begins)
			xl_ask(cable, number, now_ns);
		return false;
	}
	if (ahead < 0) {
		counters[XL_C_RX_DUPLICATE]++;
		if (end->report.receiver == XL_RX_ACKS)
			xl_ack_later(end, now_ns);
		return false;
	}
	counters[fate == XL_POISONED ? XL_C_RX_EXPECTED_POISONED : XL_C_RX_EXPECTED_GOOD]++;
	end->expected = (end->expected + 1) % XL_SEQUENCES;
	end->report.receiver = XL_RX_ACKS;
	xl_ack_later(end, now_ns);
	return true;
}

static void xl_arrive(struct xl_cable *cable, u32 number, s64 now_ns)
{
	struct xl_end *end = &cable->ends[number];
	struct xl_carried *carried = end->first;
	struct xl_frame *frame = carried->frame;

	end->first = carried->next;
	if (end->first)
		end->first->before = 0;
	else
		end->last = 0;
	if (!frame) {
		xl_receive_set(cable, number ^ 1, carried, now_ns);
		xl_free(carried);
		return;
	}
	frame->flying -= carried->fate != XL_DAMAGED;
	if (frame->has_sequence && !xl_receive_frame(cable, number ^ 1, frame->sequence, carried->fate, now_ns)) {
		xl_settle(cable, number, frame);
	} else if (carried->fate == XL_POISONED) {
		xl_give_up(cable, number, frame);
	} else {
		frame->is_settled = 1;
		xl_pass(cable, number, frame, now_ns);
	}
	xl_leave(frame);
	xl_free(carried);
}

/* Time */

static s64 xl_line_ns(const struct xl_end *end)
{
	bool waits = end->report.state == XL_TX_REPLAY;

	if (end->held.count)
		waits |= xl_may_take(end) && xl_has_room(end, end->held.first);
	else
		waits |= end->is_stopped && xl_may_take(end);
	return waits ? xl_free_ns(end) : XL_NEVER;
}

static s64 xl_age_ns(const struct xl_end *end)
{
	return end->given.age_ns && end->kept.count ? end->kept.first->sent_ns + end->given.age_ns : XL_NEVER;
}

static s64 xl_end_deadline(const struct xl_end *end)
{
	s64 line_ns = xl_line_ns(end), age_ns = xl_age_ns(end);
	s64 first_ns = line_ns < age_ns ? line_ns : age_ns;

	if (end->timer_ns < first_ns)
		first_ns = end->timer_ns;
	return end->ack_ns < first_ns ? end->ack_ns : first_ns;
}

static void xl_poll(struct xl_cable *cable, u32 number, s64 now_ns)
{
	struct xl_end *end = &cable->ends[number];

	if (end->ack_ns <= now_ns) {
		end->ack_ns = XL_NEVER;
		end->ack_from_ns = now_ns + xl_time_ns(end, end->given.spacing);
		xl_send_set(cable, number, now_ns, XL_ACK, (end->expected - 1) % XL_SEQUENCES, 0);
	} else if (end->timer_ns <= now_ns) {
		end->timer_ns = XL_NEVER;
		if (end->report.state == XL_TX_INIT)
			xl_send_init(cable, number, now_ns);
		else if (end->kept.count)
			xl_replay(cable, number, now_ns);
	} else if (xl_age_ns(end) <= now_ns) {
		xl_flush(cable, number, now_ns);
	} else if (end->report.state == XL_TX_REPLAY) {
		if (end->replay) {
			struct xl_frame *frame = end->replay;

			end->replay = frame->next;
			end->report.replayed++;
			end->report.replayed_octets += frame->length + XL_FCS;
			xl_transmit(cable, number, frame, now_ns);
		}
		if (!end->replay)
			xl_end_replay(end);
	} else if (end->held.count) {
		xl_take(cable, number, xl_take_first(&end->held), now_ns);
	} else {
		end->is_stopped = 0;
	}
}

/* The next moment at which something happens */
static s64 xl_deadline(const struct xl_cable *cable)
{
	s64 first_ns = XL_NEVER;
	u32 number;

	for (number = 0; number < 2; number++) {
		const struct xl_end *end = &cable->ends[number];
		s64 own_ns = xl_end_deadline(end);

		if (end->first && end->first->at_ns < own_ns)
			own_ns = end->first->at_ns;
		if (own_ns < first_ns)
			first_ns = own_ns;
	}
	return first_ns;
}

/* Let happen what is due until a moment, each at its own */
static void xl_advance(struct xl_cable *cable, s64 until_ns)
{
	s64 now_ns;

	while ((now_ns = xl_deadline(cable)) <= until_ns) {
		u32 number;

		if (now_ns < cable->now_ns)	/* what waits may go on the line, which has been free for a while */
			now_ns = cable->now_ns;
		cable->now_ns = now_ns;
		for (number = 0; number < 2; number++)
			if (cable->ends[number].first && cable->ends[number].first->at_ns <= now_ns)
				break;
		if (number < 2) {
			xl_arrive(cable, number, now_ns);
			continue;
		}
		for (number = 0; number < 2; number++)
			if (xl_end_deadline(&cable->ends[number]) <= now_ns)
				break;
		xl_poll(cable, number, now_ns);
	}
	cable->now_ns = until_ns;
}

/* Prepare an end whose settings are there; `xl_start` follows for one with LLR */
static void xl_prepare(struct xl_end *end)
{
	end->timer_ns = end->ack_ns = XL_NEVER;
	end->next_sequence = end->given.first_sequence;
}

/* What an end has counted, and its state at this moment */
static struct xl_report xl_reported(const struct xl_end *end)
{
	struct xl_report report = end->report;

	report.kept = end->kept.count;
	report.held = end->held.count;
	report.next_sequence = end->next_sequence;
	report.expected = end->expected;
	return report;
}

/* Give up all that is kept, held and on the line of an end, as when its cable is pulled, and begin anew */
static void xl_reset(struct xl_cable *cable, u32 number)
{
	struct xl_end *end = &cable->ends[number];

	while (end->first) {
		struct xl_carried *carried = end->first;

		end->first = carried->next;
		if (carried->frame) {
			carried->frame->flying -= carried->fate != XL_DAMAGED;
			if (!carried->frame->has_sequence)
				carried->frame->is_given_up = 1;
			xl_settle(cable, number, carried->frame);
			xl_leave(carried->frame);
		}
		xl_free(carried);
	}
	end->last = 0;
	while (end->kept.count || end->held.count) {
		struct xl_frame *frame = xl_take_first(end->kept.count ? &end->kept : &end->held);

		xl_give_up(cable, number, frame);
		xl_leave(frame);
	}
	end->replay = 0;
	end->octets = end->replays = 0;
	end->is_stopped = 0;
	end->timer_ns = end->ack_ns = XL_NEVER;
}

#endif
