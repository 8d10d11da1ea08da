/* SPDX-License-Identifier: GPL-2.0 */
/*
 * RoCEv2 queue pairs in C: what xoff_roce_user.c does, and what it needs of its caller.
 *
 * The protocol knows no clock, no sockets and no memory but its caller's. Datagrams go in with the moment at which they
 * came, xr_transmit() hands out those to be sent, and xr_deadline() is the moment to call it again. It is the protocol
 * of testbed/roce, which says more: both give the same packets at the same nanosecond.
 */
#ifndef __XOFF_ROCE_H
#define __XOFF_ROCE_H

#if defined(__KERNEL__) && !defined(__UM_HOST__)
#include <linux/types.h>
#else
#include <stddef.h>
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long s64;
#endif

#include "xoff_roce_counters.h"

#define XR_NEVER ((s64)(~0ULL >> 1))
#define XR_BLOCK 65544		/* octets of content, after which it repeats */
#define XR_MOST_WORKS 72
#define XR_MOST_READS 16	/* and atomic operations that wait for their response, or are remembered */
#define XR_WORD 8		/* octets of an atomic operation */
#define XR_LATEST 2048		/* numbers by which a packet may be late and still be known as one that was missing */
#define XR_TURN 65535
#define XR_AREA 244		/* octets of an area of telemetry at the most, as testbed/frames/telemetry.py has it */
#define XR_HEAD (40 + XR_AREA)	/* octets of a packet's headers at the most */
#define XR_STATE 8		/* numbers that a rate control shows at the most */
#define XR_WIRE 66		/* around the payload of UDP: Ethernet 14, IPv4 20, UDP 8, FCS 4, preamble 8, gap 12 */
#define XR_WIRE_IPV6 86
#define XR_MOST_CNPS 16		/* that are under way in the NIC */
#define XR_MOST_KEPT (1 << 20)	/* packets that a NIC keeps behind a missing one */
#define XR_BITMAP 64		/* octets of a selective acknowledgement's bitmap at the most */
#define XR_GRH 40		/* octets before a datagram in its receive */
#define XR_OFFSET 4		/* octets before it: how many packets behind the first one after the missing one it begins */

/* From XR_READ on, responses of their own complete them; from XR_COMPARE_SWAP on they are atomic */
enum xr_operation { XR_WRITE, XR_SEND, XR_READ, XR_COMPARE_SWAP, XR_FETCH_ADD };
enum xr_rate_kind { XR_FIXED, XR_DCQCN, XR_TIMELY, XR_OWN };
/* What a rate control of one's own is told, as RateControl of testbed/roce/rates/base.py */
enum xr_told { XR_SENT, XR_CNP, XR_ROUND_TRIP, XR_ACKNOWLEDGED, XR_LOSS, XR_DEADLINE };
enum xr_recovery { XR_GO_BACK_N, XR_GO_BACK_0, XR_SELECTIVE_REPEAT };
/* Scattered memory takes octets at any address, of messages of which some may be lost */
enum xr_region_kind { XR_NO_REGION, XR_CONTENT, XR_SINK, XR_WORDS, XR_SCATTERED };
enum xr_service { XR_RC, XR_UC, XR_UD };

/* Why a datagram was not taken; testbed/roce/in_kernel.py has the names in this order */
enum xr_refusal {
	XR_TAKEN, XR_TOO_SHORT, XR_WRONG_VERSION, XR_OPCODE_NOT_KNOWN, XR_BAD_PADDING, XR_BAD_SYNDROME, XR_BAD_ICRC,
	XR_NOT_READY, XR_BAD_TELEMETRY, XR_TRIMMED, XR_OTHER_SERVICE, XR_REFUSALS
};

/* Why a queue pair failed; testbed/roce/in_kernel.py has the sentences in this order */
enum xr_why {
	XR_NO_FAILURE, XR_NO_ACKNOWLEDGEMENT, XR_REFUSED, XR_RESPONSE_LENGTH, XR_RESPONSE_FAULT, XR_READ_ACCESS,
	XR_WRITE_ACCESS, XR_READ_WITHIN, XR_TOO_MANY_READS, XR_FIRST_WITHIN, XR_NO_FIRST, XR_WRONG_LENGTH, XR_NO_MEMORY,
	XR_NOT_NEXT, XR_READ_ONLY, XR_WRITE_ONLY, XR_NO_RECEIVE, XR_ATOMIC_ACCESS, XR_ATOMIC_WITHIN, XR_ATOMIC_PLACE,
	XR_NOT_TO_INVALIDATE, XR_RATE_CONTROL
};

struct xr_failure {
	u32 why, pad;
	u64 with[4];
};

/* The settings of an endpoint; times are the lab's */
struct xr_settings {
	u32 mtu, ack_every, window, retries;
	s64 retransmit_ns, cnp_ns;
	u64 rests; /* the DSCPs of trimmed packets, a bit each */
};

/* The NIC of a queue pair, as NicTiming of testbed/roce/nic.py; times are the lab's */
struct xr_nic {
	u32 recovery, reads, reorder_packets, receives;
	u32 rnr_code, rnr_retries, bdp_packets, low_packets;
	s64 cnp_ns, ack_ns, doorbell_ns, jitter_ns, reorder_ns, receive_ns, rnr_unit_ns, low_ns, high_ns;
	u64 seed;
	u32 shares_receives, receive_limit;
};

/* The receives of one queue pair, or of all that share them, as Receives of testbed/roce/services/receives.py */
struct xr_receives {
	s64 busy_ns;
	s64 taken;		/* of messages that are coming in */
	u32 is_unarmed, pad;
};

/* The queue pair that a datagram goes to, as AddressHandle of testbed/roce/work.py */
struct xr_handle {
	u8 address[16];		/* the first four octets of IPv4 */
	u32 number, q_key;
};

/* A packet that is kept until those before it have come: all but its payload, of which the CRC-32 is enough */
struct xr_early {
	u64 address, data, compare;
	u32 is_there, opcode, ack_request, octets, crc, immediate, r_key, length;
};

/* Memory that packets are read from or written to; addresses begin at 0 */
struct xr_region {
	u32 kind;
	u8 has_content, as_expected, is_invalid, pad;
	u64 size;
	u64 start;		/* the place of address 0 in the block of content */
	u64 received;		/* octets from the first one on that a sink has taken */
	u64 next;		/* the address of the next octet, which is lower while a message begins again */
	u64 *words;		/* of atomic operations, as memory has them; `received` counts the octets they changed */
};

struct xr_memory {
	const u8 *block;	/* the content, twice */
	const u32 *known;	/* CRC-32 of a full packet of content, for each eighth octet of the block */
	const u32 *shift;	/* four tables of 256: what a full packet of zeros makes of a CRC-32 */
	struct xr_region *regions;
	u32 count, first_key;
};

/* An event for a rate control of one's own. Round trip: -1 if it is not known. Stamps are as they are on the wire. */
struct xr_event {
	u32 kind, stamps_count;
	s64 now_ns, octets, round_trip_ns, packets, until, next;
	const u8 *stamps;
};

struct xr_rate {
	u32 kind;
	u32 wants;		/* of one's own: which events it has methods for, by their bits */
	double rate_bps, line_bps;
	/* DCQCN */
	double gain, alpha, target_bps, additive_bps, hyper_bps, minimum_bps;
	s64 alpha_ns, increase_ns, decrease_ns, behind_ns, bytes, recovery;
	/* TIMELY, with minimum_bps and the step in additive_bps */
	double average, decrease;
	s64 low_ns, high_ns, least_ns, hyper_after;
	/* The rest is state; a caller leaves it 0 and calls xr_start() */
	s64 timer_events, byte_events, sent_octets, alpha_due_ns, increase_due_ns, decrease_due_ns;
	s64 previous_ns, at_ns, falling;
	double gradient;
	u32 has_cnp, wants_decrease, has_previous;
	/* Of one's own, which its process writes after each event */
	u32 counts_acknowledgements, needs_telemetry;
	u32 fault, fault_at, pad;	/* enum xc_fault, and at which instruction */
	s64 window, deadline_ns;	/* window: 0 for none */
};

/* Settings of DCQCN in whole numbers, for the kernel's side, which has no others; gain and alpha are parts of 1024 */
struct xr_dcqcn {
	u64 line_bps, minimum_bps, additive_bps, hyper_bps;
	u64 gain, alpha;
	u64 alpha_ns, increase_ns, decrease_ns, bytes, recovery;
};

struct xr_work {
	u32 operation;
	u8 has_immediate, has_invalidate, pad[2];
	u32 immediate, r_key;	/* immediate: or the key that a send invalidates */
	struct xr_region *local;
	u64 length, local_address, remote_address;
	u64 data, compare;	/* of an atomic operation */
	s64 first, end, ready_ns;
	const struct xr_handle *to;	/* of a datagram; NULL: the far end of its queue pair */
};

/* The order in which packets of data have come: of each PSN the first one counts (testbed/roce/order.py) */
struct xr_order {
	s64 highest;
	u64 arrived;
	u16 since[XR_LATEST];		/* of a missing number: the packets that had come when a higher one came; a ring */
};

struct xr_requester {
	s64 oldest, next, highest, end;
	s64 went_back_to, asked_ns, timer_ns;
	s64 timed, timed_ns;		/* timed: -1 without a measurement */
	s64 round_trip_ns;		/* -1: none was measured */
	s64 doorbell_ns, resume_ns;
	u32 since_ack, tries, rnr_tries, window;
	/* Of selective repeat: what is sent again, and the responses of reads that have come early */
	s64 repair, repair_end, placed, gap_ns, gap_end;
	u8 *arrived;			/* for each packet from the oldest on, a ring */
	struct xr_early *early;		/* a ring */
	u32 early_count, pad;
	u32 head, count, cursor, reads;	/* of works; reads among them */
	struct xr_failure failure;
	struct xr_order order;		/* of read responses */
	struct xr_work works[XR_MOST_WORKS];
};

/* A packet under way that was sent once, and when */
struct xr_sent {
	s64 number, at_ns;
};

/* A read, or an atomic operation, which has no region, and in `address` what was there before */
struct xr_serving {
	struct xr_region *region;
	u64 address;
	s64 number;
	u32 left, is_first;
};

/* What was there before an atomic operation */
struct xr_original {
	s64 number;
	u64 value;
};

struct xr_responder {
	s64 expected, served;
	u32 msn;
	u8 ack_is_due, nak_is_due, nak_was_sent, has_message, is_send, has_refusal, refusal;
	u8 rnr_is_due, waits_for_receive, gap_is_told;
	u8 drops;			/* of an unreliable connection, until the first packet of another message */
	s64 message_first, gap_ns, answer_ns, busy_ns;
	s64 latest, furthest;		/* of those that are kept: the last that came, and the highest that ever came */
	struct xr_early *early;		/* a ring of `keeps` */
	u32 keeps, early_count;
	struct xr_region *region;	/* of the message that is coming in */
	u64 address, left, octets;
	struct xr_region *receive_into;
	u64 receive_address;
	u32 head, count;		/* of reads */
	struct xr_failure failure;
	struct xr_order order;		/* of writes and sends */
	struct xr_serving reads[XR_MOST_READS];
	struct xr_original originals[XR_MOST_READS];	/* of the last ones, a ring */
	u64 originals_count;		/* of all that there were */
	struct xr_receives *receives;	/* NULL: those of one reliable connection, which `busy_ns` counts */
	struct xr_receives own_receives;
	/* Of an unreliable service: where its first message begins, and how many octets its sends have, or 0 */
	s64 begin;
	u64 message;
};

struct xr_queue_pair {
	u32 number, far_number;
	u8 address[16], far_address[16];	/* the first four octets of IPv4 */
	u16 port, far_port;
	u32 has_failed, is_ipv6;
	u32 service, q_key;
	u32 notified, pad;		/* the queue pair that CNPs go to: of datagrams the sender of the last one */
	const struct xr_handle *to;	/* of the datagram that is made */
	struct xr_failure failure;
	const struct xr_settings *settings;
	const struct xr_memory *memory;
	struct xr_nic nic;
	u64 drawn;
	s64 ahead_ns, next_ns, last_cnp_ns;
	s64 *pace;			/* the last CNP of those that share an interval */
	s64 cnps_due_ns[XR_MOST_CNPS];	/* a ring; 0: at once */
	u32 was_idle, cnps_head, cnps_count;
	u8 bitmap[XR_OFFSET + XR_BITMAP];
	struct xr_counters counters;
	u32 prefix_length[2], prefix[2];	/* the CRC of headers before a packet, sent and received */
	struct xr_rate rate;
	void (*tell)(struct xr_queue_pair *pair, const struct xr_event *event);	/* of a rate control of one's own */
	const struct xc_program *program;	/* of one that is code (xoff_control_vm.h), with its frame */
	void *frame;
	struct xr_sent *under_way;	/* a ring, for one that counts acknowledgements */
	u32 sent_head, sent_count, sent_room, most_window;
	s64 sent_highest;
	const u8 *area;			/* the telemetry of the packet that is made */
	u32 area_octets, returned_octets;
	u8 returned[XR_AREA];		/* that of the next acknowledgement */
	struct xr_requester requester;
	struct xr_responder responder;
};

/* A flow at the end that asks for its messages */
struct xr_asker {
	u32 operation, key;
	u32 has_immediate, immediate;
	struct xr_region *local;
	u64 message, left, messages, posted;
	s64 begin_ns, end_ns;
	u32 lag, may_not_post;
	u32 has_ended, is_over;
};

/* A packet to be sent: headers, payload, zeros for padding, ICRC; to the far end of its queue pair if `to` is NULL */
struct xr_packet {
	const struct xr_handle *to;
	u32 head_length, length, padding, icrc;
	const u8 *payload;
	u8 head[XR_HEAD];
};

typedef void (*xr_emit)(void *context, const struct xr_packet *packet);

void xr_tables(void);
u32 xr_crc32(u32 crc, const u8 *octets, unsigned long length);
void xr_prepare_memory(const u8 *block, u32 mtu, u32 *known, u32 *shift);
unsigned long xr_room(const struct xr_nic *nic, const struct xr_rate *rate, const struct xr_settings *settings);
void xr_start(struct xr_queue_pair *pair, s64 first, s64 far_first, u64 line_bps, void *room);
int xr_post(struct xr_queue_pair *pair, const struct xr_work *work, s64 now_ns);
int xr_receive(struct xr_queue_pair *pair, const u8 *datagram, u32 length, u32 ds_field, s64 now_ns);
int xr_transmit(struct xr_queue_pair *pair, s64 now_ns, int most, xr_emit emit, void *context);
int xr_notification(struct xr_queue_pair *pair, s64 now_ns, xr_emit emit, void *context);
s64 xr_notification_ns(const struct xr_queue_pair *pair);
s64 xr_deadline(const struct xr_queue_pair *pair);
void xr_on_cnp(struct xr_queue_pair *pair, s64 now_ns);
int xr_rate_state(const struct xr_queue_pair *pair, s64 now_ns, double *state);
void xr_ask(struct xr_asker *asker, struct xr_queue_pair *pair, s64 now_ns, int may_send,
	    int (*may_post)(void *context, s64 blocks), void *context);
void xr_dcqcn_start(struct xr_rate *rate, const struct xr_dcqcn *settings);
void xr_rate_cnp(struct xr_rate *rate, s64 now_ns);
s64 xr_rate_next(struct xr_rate *rate, s64 next_ns, u32 was_idle, u32 octets, s64 now_ns);
unsigned long xr_queue_pair_size(void);

#endif
