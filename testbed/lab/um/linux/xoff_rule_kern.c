// SPDX-License-Identifier: GPL-2.0
/*
 * Rules of one's own at the queues of a port, see xoff_rule.h: what qdisc red asks of each frame.
 *
 * After a fault a rule is not asked any more, and red goes by its curve.
 */
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/refcount.h>
#include <linux/slab.h>
#include <net/inet_ecn.h>
#include <net/sch_generic.h>
#include <linux/xoff_rule.h>
#include "xoff_control_vm.h"

struct xs_rule {
	refcount_t users;		/* qdiscs */
	struct xc_program program;
	union xc_number *frame;
	u64 asked;
	s64 fault_ns;
	u32 fault, fault_at;
};

/* The moment at which a frame came to its queue: behind what netem has there */
static s64 *xs_came_ns(struct sk_buff *skb)
{
	BUILD_BUG_ON(QDISC_CB_PRIV_LEN < 16);
	return (s64 *)(qdisc_skb_cb(skb)->data + 8);
}

static u32 xs_ecn(const struct sk_buff *skb)
{
	const u8 *head = skb_network_header(skb);

	switch (skb_protocol(skb, true)) {
	case htons(ETH_P_IP):
		return head + sizeof(struct iphdr) <= skb_tail_pointer(skb) ? head[1] & INET_ECN_MASK : 0;
	case htons(ETH_P_IPV6):
		return head + sizeof(struct ipv6hdr) <= skb_tail_pointer(skb) ? head[1] >> 4 & INET_ECN_MASK : 0;
	}
	return 0;
}

/* Take a rule, if it can do no harm */
struct xs_rule *xs_new(const struct xs_given *given, u32 size)
{
	u32 code, cells;
	struct xs_rule *rule;

	BUILD_BUG_ON(XS_ENTRIES != XC_ENTRIES || XS_STATE != XR_STATE);
	if (!given->count || given->count > XC_MOST_CODE || given->cells > XC_MOST_CELLS)
		return ERR_PTR(-EINVAL);
	code = given->count * sizeof(struct xc_op);
	cells = given->cells * sizeof(union xc_number);
	if (size != sizeof(*given) + code + cells)
		return ERR_PTR(-EINVAL);
	rule = kvzalloc(sizeof(*rule) + cells + code, GFP_KERNEL);
	if (!rule)
		return ERR_PTR(-ENOMEM);
	refcount_set(&rule->users, 1);
	rule->frame = (union xc_number *)(rule + 1);
	memcpy(rule->frame, (const u8 *)(given + 1) + code, cells);
	memcpy((u8 *)rule->frame + cells, given + 1, code);
	rule->program = (struct xc_program) {
		.count = given->count, .cells = given->cells, .code = (struct xc_op *)((u8 *)rule->frame + cells),
	};
	memcpy(rule->program.entries, given->entries, sizeof(rule->program.entries));
	if (!xc_fits(&rule->program)) {
		kvfree(rule);
		return ERR_PTR(-EINVAL);
	}
	return rule;
}

struct xs_rule *xs_get(struct xs_rule *rule)
{
	refcount_inc(&rule->users);
	return rule;
}

void xs_put(struct xs_rule *rule)
{
	if (rule && refcount_dec_and_test(&rule->users))
		kvfree(rule);
}

/* Ask a rule about a frame, with what waits in the queue beside it: 1 to mark it, 0 not to, -1 if there is no answer */
int xs_asked(struct xs_rule *rule, u32 event, u32 queue, struct sk_buff *skb, const struct Qdisc *below)
{
	struct xs_frame about = { .now_ns = ktime_get_ns() };
	u32 marks;

	if (event == XS_ARRIVES)
		*xs_came_ns(skb) = about.now_ns;
	if (rule->fault)
		return -1;
	if (rule->program.entries[event] == XC_NO_ENTRY)
		return 0;
	about.waited_ns = about.now_ns - *xs_came_ns(skb);
	about.queue = queue;
	about.octets = qdisc_pkt_len(skb);
	about.ecn = xs_ecn(skb);
	about.queued_octets = below->qstats.backlog;
	about.queued_frames = below->q.qlen;
	rule->asked++;
	rule->fault = xs_ask(&rule->program, event, rule->frame, &about, &marks, &rule->fault_at);
	if (!rule->fault)
		return marks;
	rule->fault_ns = about.now_ns;
	return -1;
}

void xs_stats_of(const struct xs_rule *rule, struct xs_stats *stats)
{
	*stats = (struct xs_stats) {
		.asked = rule->asked, .fault = rule->fault, .fault_at = rule->fault_at, .fault_ns = rule->fault_ns,
	};
	stats->shown = xc_show(&rule->program, rule->frame, ktime_get_ns(), stats->state);
}
