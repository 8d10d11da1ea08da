/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a PFC agent does with one event, in C, as far as it is frequent. The rules know no clock, socket or memory but
 * their caller's, who includes this file and has the functions that are declared first: the driver in the kernel
 * (xoff_pfc_kern.c), and the library of tests (xoff_pfc_library.c).
 *
 * Stated in: testbed/switch/pfc/port.py, testbed/switch/pfc/timers.py, testbed/agent/pfc/loop.py.
 * Compared by: tools/compare_pfc.py, tests/lab/pfc/test_pfc_in_kernel.py.
 */
#ifndef __XOFF_PFC_RULES_H
#define __XOFF_PFC_RULES_H

#include "xoff_pfc_device.h"

#define XP_FRAME_OCTETS 64	/* of a frame, at the most, behind its event */
#define XP_PFC_LENGTH 60
#define XP_PFC_FIELDS 34	/* octets that a frame to be obeyed has at the least */
#define XP_ADDRESS 6
#define XP_NEVER ((s64)(~0ULL >> 1))

#ifndef fallthrough
#define fallthrough __attribute__((__fallthrough__))
#endif

/* As in testbed/linux/port_program/records.py */
enum xp_kind { XP_FRAME = 1, XP_XOFF, XP_XON, XP_DROP };
#define XP_TRIMMED 7		/* a reason of XP_DROP, and from bit 4 on the queue that was full */

struct xp_event {
	u64 time_ns;
	u16 kind, slot;
	u8 priority, reason;
	u16 length;
	u32 shared, headroom;
	u8 octets[XP_FRAME_OCTETS];
};

/* As in testbed/agent/events.py and testbed/switch/pfc/record.py */
enum {
	XP_LOG_XOFF_RECEIVED = 0, XP_LOG_XON_RECEIVED = 1, XP_LOG_XOFF_SENT = 5, XP_LOG_XON_SENT = 7,
	XP_LOG_CONGESTED = 8, XP_LOG_RELIEVED = 9, XP_LOG_DROP = 100, XP_LOG_THRESHOLD = 101,
	XP_LOG_QUEUE_STOPPED = 102, XP_LOG_FRAME_SENT = 103, XP_LOG_SEND_FAILED = 107, XP_LOG_TRIMMED = 128
};

static const u16 xp_logged[XP_COUNTS] = {
	[XP_XOFF_RECEIVED] = XP_LOG_XOFF_RECEIVED, [XP_XON_RECEIVED] = XP_LOG_XON_RECEIVED,
	[XP_XOFF_SENT] = XP_LOG_XOFF_SENT, [XP_XON_SENT] = XP_LOG_XON_SENT,
	[XP_CONGESTED] = XP_LOG_CONGESTED, [XP_RELIEVED] = XP_LOG_RELIEVED,
};

/* A port that is served */
struct xp_served {
	struct xp_add given;
	struct xp_state *state;
};

/* What is done next for an event */
enum xp_step {
	XP_READ,		/* nothing is begun */
	XP_SEND_XOFF,
	XP_SEND_XON,
	XP_CHANGE_QUEUES
};

/* One event and what is made of it */
struct xp_turn {
	enum xp_step step;
	struct xp_served *port;
	struct xp_event event;
	s64 due_ns;		/* when it goes on */
	s64 started_ns;		/* when the agent began: nothing before that is late */
	u8 mask, stop, resume;	/* what is sent, and changed */
};

enum xp_outcome {
	XP_DONE,
	XP_WAITS,		/* for the reaction time: xp_go_on() is to be called again at `due_ns` */
	XP_LEAVES		/* the event is one for the process */
};

/* What the caller has */
static s64 xp_now(const struct xp_turn *turn);
static s64 *xp_timer(const struct xp_served *port, u32 number);
static void xp_log(struct xp_turn *turn, s64 at_ns, u16 kind, u16 slot, u32 mask, s64 value);
static void xp_note_late(struct xp_turn *turn, s64 late_ns);
static bool xp_is_congested(const struct xp_turn *turn);
static void xp_send(struct xp_turn *turn, const u8 *frame);
static void xp_change_queues(struct xp_turn *turn, u8 queues, bool stop);

static inline u32 xp_be16(const u8 *octets)
{
	return octets[0] << 8 | octets[1];
}

static inline void xp_put_be16(u8 *octets, u32 value)
{
	octets[0] = value >> 8;
	octets[1] = value;
}

static inline bool xp_is_to_pfc(const u8 *octets)
{
	return octets[0] == 0x01 && octets[1] == 0x80 && octets[2] == 0xc2 && !octets[3] && !octets[4] &&
	       octets[5] == 0x01;
}

/* Log and count an event of these priorities */
static void xp_note(struct xp_turn *turn, enum xp_count kind, u8 mask, s64 value, s64 at_ns)
{
	struct xp_state *state = turn->port->state;
	u32 i;

	xp_log(turn, at_ns, xp_logged[kind], turn->port->given.slot, mask, value);
	for (i = 0; i < XP_PRIORITIES; i++) {
		if (!(mask >> i & 1))
			continue;
		state->counts[kind][i]++;
		if (kind == XP_XOFF_RECEIVED && state->paused_since_ns[i] == XP_NEVER) {
			state->paused_since_ns[i] = at_ns;
		} else if (kind == XP_XON_RECEIVED && state->paused_since_ns[i] != XP_NEVER) {
			state->paused_ns[i] += at_ns - state->paused_since_ns[i];
			state->paused_since_ns[i] = XP_NEVER;
		}
	}
}

/* PfcPort.congested: the priorities for which XOFF is to be sent now */
static u8 xp_congested(struct xp_turn *turn, u8 mask, s64 now_ns)
{
	struct xp_state *state = turn->port->state;

	mask &= ~state->congested;
	if (!mask)
		return 0;
	state->congested |= mask;
	xp_note(turn, XP_CONGESTED, mask, 0, now_ns);
	mask &= state->active;
	if (!mask)
		return 0;
	if (!state->announced)
		*xp_timer(turn->port, XP_REFRESH) = now_ns + state->interval_ns;
	state->announced |= mask;
	xp_note(turn, XP_XOFF_SENT, mask, state->quanta, now_ns);
	return mask;
}

/* PfcPort.relieved: those for which XON is to be sent */
static u8 xp_relieved(struct xp_turn *turn, u8 mask, s64 now_ns)
{
	struct xp_state *state = turn->port->state;

	mask &= state->congested;
	if (!mask)
		return 0;
	state->congested ^= mask;
	xp_note(turn, XP_RELIEVED, mask, 0, now_ns);
	mask &= state->announced;
	if (!mask)
		return 0;
	state->announced ^= mask;
	if (!state->announced)
		*xp_timer(turn->port, XP_REFRESH) = XP_NEVER;
	if (!state->sends_xon)
		return 0;
	xp_note(turn, XP_XON_SENT, mask, 0, now_ns);
	return mask;
}

static s64 xp_pause_ns(const struct xp_served *port, u32 quanta)
{
	u64 rate_bps = port->given.rate_bps;

	return ((u64)quanta * 512 * 1000000000 + rate_bps - 1) / rate_bps;
}

/* Watchdog.paused */
static void xp_watch(struct xp_served *port, u8 mask, s64 now_ns)
{
	struct xp_state *state = port->state;
	s64 due_ns;
	u32 i;

	if (!state->period_ns)
		return;
	for (i = 0; i < XP_PRIORITIES; i++)
		if (mask >> i & 1)
			state->since_ns[i] = now_ns;
	state->began |= mask;
	due_ns = (now_ns + state->detection_ns + state->period_ns - 1) / state->period_ns * state->period_ns;
	if (due_ns < state->polls_at_ns)
		state->polls_at_ns = due_ns;
	*xp_timer(port, XP_POLL) = state->polls_at_ns;
}

/* Is this a PFC frame, for priorities that are active and no other? */
static bool xp_is_plain(const struct xp_state *state, const struct xp_event *event)
{
	return event->length >= XP_PFC_FIELDS && xp_is_to_pfc(event->octets) &&
	       xp_be16(event->octets + 12) == 0x8808 && xp_be16(event->octets + 14) == 0x0101 &&
	       !(event->octets[17] & ~state->active);
}

/* PfcPort.receive: `stop` and `resume` are the priorities whose queues change */
static void xp_receive(struct xp_turn *turn)
{
	const struct xp_event *event = &turn->event;
	struct xp_served *port = turn->port;
	struct xp_state *state = port->state;
	u8 named = event->octets[17], xoff = 0, xon = 0;
	u16 quanta[XP_PRIORITIES];
	u32 i, j;

	for (i = 0; i < XP_PRIORITIES; i++) {
		quanta[i] = xp_be16(event->octets + 18 + 2 * i);
		if (!(named >> i & 1))
			continue;
		if (!quanta[i]) {
			xon |= 1 << i;
			continue;
		}
		xoff |= 1 << i;
		*xp_timer(port, i) = event->time_ns + xp_pause_ns(port, quanta[i]);
	}
	/* Those that are to stop for the same time are one event */
	for (i = 0, named = xoff; named; i++) {
		u8 same = 0;

		if (!(named >> i & 1))
			continue;
		for (j = i; j < XP_PRIORITIES; j++)
			if (named >> j & 1 && quanta[j] == quanta[i])
				same |= 1 << j;
		named ^= same;
		xp_note(turn, XP_XOFF_RECEIVED, same, quanta[i], event->time_ns);
	}
	turn->stop = xoff & ~state->paused;
	if (turn->stop) {
		state->paused |= turn->stop;
		xp_watch(port, turn->stop, event->time_ns);
	}
	if (xon)
		xp_note(turn, XP_XON_RECEIVED, xon, 0, event->time_ns);
	turn->resume = xon & state->paused;
	state->paused ^= turn->resume;
	for (i = 0; i < XP_PRIORITIES; i++)
		if (turn->resume >> i & 1)
			*xp_timer(port, i) = XP_NEVER;
}

static void xp_send_pfc(struct xp_turn *turn, u32 quanta)
{
	static const u8 begin[] = { 0x01, 0x80, 0xc2, 0, 0, 0x01 }, pfc[] = { 0x88, 0x08, 0x01, 0x01 };
	u8 frame[XP_PFC_LENGTH] = { 0 };
	u32 i;

	for (i = 0; i < XP_ADDRESS; i++) {
		frame[i] = begin[i];
		frame[XP_ADDRESS + i] = turn->port->given.source[i];
	}
	for (i = 0; i < sizeof(pfc); i++)
		frame[12 + i] = pfc[i];
	frame[17] = turn->mask;
	for (i = 0; i < XP_PRIORITIES; i++)
		if (turn->mask >> i & 1)
			xp_put_be16(frame + 18 + 2 * i, quanta);
	xp_send(turn, frame);
}

static u8 xp_queues_of(const struct xp_state *state, u8 mask)
{
	u8 queues = 0;
	u32 i;

	for (i = 0; i < XP_PRIORITIES; i++)
		if (mask >> i & 1)
			queues |= state->queues[i];
	return queues;
}

/* Log that a reaction to the event is over, and note by how much it came later than headroom allows */
static void xp_reacted(struct xp_turn *turn, u16 kind, u8 mask, s64 allowed_ns)
{
	s64 now_ns = xp_now(turn), event_ns = turn->event.time_ns;

	xp_log(turn, now_ns, kind, turn->event.slot, mask, now_ns - event_ns);
	if (event_ns > turn->started_ns)
		xp_note_late(turn, now_ns - event_ns - allowed_ns);
}

/* Return true, and go on at `step`, if there is time left until a reaction of the event */
static bool xp_waits(struct xp_turn *turn, s64 delay_ns, enum xp_step step)
{
	turn->step = step;
	turn->due_ns = turn->event.time_ns + delay_ns;
	return turn->due_ns > xp_now(turn);
}

/* Do what is next for the event, which is at one of its steps */
static enum xp_outcome xp_go_on(struct xp_turn *turn)
{
	const struct xp_event *event = &turn->event;
	const struct xp_add *given = &turn->port->given;
	struct xp_state *state = turn->port->state;
	u8 bit = 1 << (event->priority & 7), queues;

	switch (turn->step) {
	case XP_READ:
		if (event->kind == XP_DROP && (event->reason & 7) == XP_TRIMMED) {
			xp_log(turn, event->time_ns, XP_LOG_TRIMMED, event->slot, bit,
			       (s64)(event->reason >> 4) << 32 | event->length);
			return XP_DONE;
		}
		if (event->kind == XP_DROP) {
			xp_log(turn, event->time_ns, XP_LOG_DROP, event->slot, bit,
			       (s64)event->reason << 32 | event->length);
			return XP_DONE;
		}
		if (event->kind == XP_FRAME) {
			if (!(state->serves & XP_FRAMES) || !xp_is_plain(state, event))
				return XP_LEAVES;
			state->touched = 1;
			xp_receive(turn);
			if ((turn->stop || turn->resume) && xp_waits(turn, given->stop_delay_ns, XP_CHANGE_QUEUES))
				return XP_WAITS;
			goto change_queues;
		}
		if (event->kind != XP_XOFF && event->kind != XP_XON)
			return XP_DONE;
		if (!(state->serves & XP_THRESHOLDS))
			return XP_LEAVES;
		state->touched = 1;
		turn->mask = 0;
		if (event->kind == XP_XOFF) {
			turn->mask = xp_congested(turn, bit, event->time_ns);
			if (turn->mask && xp_waits(turn, given->xoff_delay_ns, XP_SEND_XOFF))
				return XP_WAITS;
		}
		fallthrough;
	case XP_SEND_XOFF:
		if (turn->mask) {
			xp_send_pfc(turn, state->quanta);
			xp_reacted(turn, XP_LOG_FRAME_SENT, bit, given->xoff_allowed_ns);
		}
		/* The group itself has the last word: it may have room again by now */
		turn->mask = 0;
		if (!xp_is_congested(turn)) {
			turn->mask = xp_relieved(turn, bit, event->time_ns);
			if (turn->mask && xp_waits(turn, given->xoff_delay_ns, XP_SEND_XON))
				return XP_WAITS;
		}
		fallthrough;
	case XP_SEND_XON:
		if (turn->mask)
			xp_send_pfc(turn, 0);
		xp_log(turn, event->time_ns, XP_LOG_THRESHOLD, event->slot, bit, event->shared);
		return XP_DONE;
	case XP_CHANGE_QUEUES:
change_queues:
		if (turn->stop) {
			xp_change_queues(turn, xp_queues_of(state, turn->stop), true);
			xp_reacted(turn, XP_LOG_QUEUE_STOPPED, turn->stop, given->stop_allowed_ns);
		}
		if (turn->resume) {
			queues = xp_queues_of(state, turn->resume);
			if (state->overlaps || state->held)
				queues &= ~xp_queues_of(state, state->paused | state->held);
			xp_change_queues(turn, queues, false);
		}
		return XP_DONE;
	}
	return XP_DONE;
}

/* The first of the times that a port waits for */
static s64 xp_due_ns(const struct xp_served *port)
{
	s64 due_ns = XP_NEVER;
	u32 i;

	for (i = 0; i < XP_TIMERS; i++)
		if (*xp_timer(port, i) < due_ns)
			due_ns = *xp_timer(port, i);
	return due_ns;
}

#endif
