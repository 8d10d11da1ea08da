// SPDX-License-Identifier: GPL-2.0
/*
 * The rules of xoff_pfc_rules.h as a library, for tools/compare_pfc.py, which compares them with Python: the ports of one
 * agent, one event at a time, and a list of all that is done for it.
 */
#include <stdlib.h>
#include <string.h>

#include "xoff_pfc_rules.h"

#define XL_MOST 64
enum { XL_FRAME = 1000, XL_QUEUES };	/* beside what is logged */

struct xl_done {
	s64 at_ns;
	u32 kind, slot, mask, pad;
	s64 value;
	u8 octets[XP_FRAME_OCTETS];
};

struct xl_agent {
	struct xp_turn turn;	/* first, so that one is the other */
	s64 now_ns, late_ns;
	int is_congested, many;
	struct xl_done done[XL_MOST];
	u32 count;
	struct xp_served ports[];
};

static struct xl_done *xl_add(const struct xp_turn *turn, s64 at_ns, u32 kind, u32 mask, s64 value)
{
	struct xl_agent *agent = (struct xl_agent *)turn;
	struct xl_done *done = &agent->done[agent->many++];

	if (agent->many == XL_MOST)
		abort();
	*done = (struct xl_done) { at_ns, kind, turn->event.slot, mask, 0, value, { 0 } };
	return done;
}

static s64 xp_now(const struct xp_turn *turn)
{
	return ((const struct xl_agent *)turn)->now_ns;
}

static s64 *xp_timer(const struct xp_served *port, u32 number)
{
	return (s64 *)port->given.timers + number;
}

static void xp_log(struct xp_turn *turn, s64 at_ns, u16 kind, u16 slot, u32 mask, s64 value)
{
	xl_add(turn, at_ns, kind, mask, value)->slot = slot;
}

static void xp_note_late(struct xp_turn *turn, s64 late_ns)
{
	struct xl_agent *agent = (struct xl_agent *)turn;

	if (late_ns > agent->late_ns)
		agent->late_ns = late_ns;
}

static bool xp_is_congested(const struct xp_turn *turn)
{
	return ((const struct xl_agent *)turn)->is_congested;
}

static void xp_send(struct xp_turn *turn, const u8 *frame)
{
	memcpy(xl_add(turn, xp_now(turn), XL_FRAME, 0, 0)->octets, frame, XP_PFC_LENGTH);
}

static void xp_change_queues(struct xp_turn *turn, u8 queues, bool stop)
{
	if (queues)
		xl_add(turn, xp_now(turn), XL_QUEUES, queues, stop);
}

/* `states` is a struct xp_state for each port, every 512 octets. The timers are where `given` says. */
struct xl_agent *xlp_new(u32 count, const struct xp_add *given, u8 *states, s64 started_ns)
{
	struct xl_agent *made = calloc(1, sizeof(*made) + count * sizeof(made->ports[0]));
	u32 i;

	made->turn.started_ns = started_ns;
	made->count = count;
	for (i = 0; i < count; i++)
		made->ports[i] = (struct xp_served) { given[i], (struct xp_state *)(states + 512 * i) };
	return made;
}

void xlp_end(struct xl_agent *agent)
{
	free(agent);
}

/* Serve an event from `now_ns` on. `told` gets the moment at which that is over, the earliest time that the port waits
 * for, and the worst lateness so far. The result is how much was done, or -1 if the event is one for the process.
 */
int xlp_serve(struct xl_agent *agent, const void *event, u32 length, s64 now_ns, int is_congested, s64 *told,
	      struct xl_done *done)
{
	struct xp_turn *turn = &agent->turn;
	enum xp_outcome outcome = XP_LEAVES;
	u32 i;

	memcpy(&turn->event, event, length < sizeof(turn->event) ? length : sizeof(turn->event));
	agent->now_ns = now_ns;
	agent->is_congested = is_congested;
	agent->many = 0;
	turn->step = XP_READ;
	for (i = 0; i < agent->count; i++) {
		if (agent->ports[i].given.slot != turn->event.slot)
			continue;
		turn->port = &agent->ports[i];
		while ((outcome = xp_go_on(turn)) == XP_WAITS)
			agent->now_ns = turn->due_ns;
		told[1] = xp_due_ns(turn->port);
	}
	told[0] = agent->now_ns;
	told[2] = agent->late_ns;
	memcpy(done, agent->done, agent->many * sizeof(*done));
	return outcome == XP_LEAVES ? -1 : agent->many;
}
