// SPDX-License-Identifier: GPL-2.0
/*
 * The qdisc xoff_line: one direction of a cable with errors and Link Layer Retry, in place of netem in the cable's
 * middle. The two directions have one cable of xoff_line_rules.h, which this file gives clock, frames and ports.
 *
 * What LLR holds a frame for is that the line is taken by a replay or an ordered set, or that its buffer is full. Then
 * the port's transmit queue is stopped, as a driver does, so what follows waits in the port's queues.
 *
 * All of it runs with bottom halves off on the one CPU there is, which is the lock of a cable.
 */
#include <linux/fs.h>
#include <linux/hrtimer.h>
#include <linux/if_vlan.h>
#include <linux/init.h>
#include <linux/math64.h>
#include <linux/netdevice.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/unaligned.h>
#include <net/pkt_sched.h>
#include <net/rtnetlink.h>
#include <net/sock.h>
#include "xoff.h"
#include "xoff_line_rules.h"

struct xk_cable {
	struct xl_cable rules;		/* first, so that one is the other */
	struct Qdisc *qdiscs[2];	/* by the end that sends */
	struct net_device *ports[2];
	bool is_stopped[2];
	u64 replays[2], flushes[2], discards[2];	/* those that are in events */
	struct hrtimer timer;
	u32 users;
};

struct xk_line {
	struct xk_cable *cable;
	u32 number;
	struct sk_buff_head ready;
};

static struct Qdisc_ops xk_ops;

/* What the rules ask for */

static void *xl_allocate(u32 size)
{
	return kmalloc(size, GFP_ATOMIC);
}

static void xl_free(void *memory)
{
	kfree(memory);
}

static u64 xl_multiplied(u64 one, u64 other, u64 divisor)
{
	return mul_u64_u64_div_u64(one, other, divisor);
}

static void xl_lose(struct xl_cable *cable, u32 number, struct xl_frame *frame)
{
	struct Qdisc *sch = ((struct xk_cable *)cable)->qdiscs[number];
	struct sk_buff *skb = frame->content;

	sch->q.qlen--;
	qdisc_qstats_backlog_dec(sch, skb);
	qdisc_qstats_drop(sch);
	kfree_skb_reason(skb, SKB_DROP_REASON_QDISC_DROP);
}

static void xl_pass(struct xl_cable *cable, u32 number, struct xl_frame *frame, s64 now_ns)
{
	struct Qdisc *sch = ((struct xk_cable *)cable)->qdiscs[number];
	struct xk_line *line = qdisc_priv(sch);

	if (!netif_running(qdisc_dev(sch))) {	/* the cable is pulled */
		xl_lose(cable, number, frame);
		return;
	}
	__skb_queue_tail(&line->ready, frame->content);
	__netif_schedule(sch);
}

/* What is kept for observers: what cables carry, if somebody watches, and events. Memory is all that it takes. */

struct xk_note {
	struct xk_note *next;
	struct xl_record record;
	u8 octets[];
};

struct xk_notes {
	struct xk_note *first, **end;
	u32 count, most;
	u64 missed;
};

static struct xk_notes xk_carried = { .end = &xk_carried.first, .most = 1 << 20 };
static struct xk_notes xk_events = { .end = &xk_events.first, .most = 100000 };
static struct file *xk_watcher;

static struct xk_note *xk_new(struct xk_notes *notes, const struct xk_cable *cable, u32 number, u32 kept)
{
	struct xk_note *note = notes->count < notes->most ? kmalloc(sizeof(*note) + kept, GFP_ATOMIC) : NULL;

	if (!note) {
		notes->missed++;
		return NULL;
	}
	memset(note, 0, sizeof(*note));
	note->record.interface = qdisc_dev(cable->qdiscs[number])->ifindex;
	note->record.kept = kept;
	*notes->end = note;
	notes->end = &note->next;
	notes->count++;
	return note;
}

static void xk_copy(const struct sk_buff *skb, u8 *to, u32 kept)
{
	u32 front = min_t(u32, kept, 2 * ETH_ALEN);

	skb_copy_bits(skb, 0, to, front);
	if (skb_vlan_tag_present(skb) && kept >= front + VLAN_HLEN) {
		put_unaligned(skb->vlan_proto, (__be16 *)(to + front));
		put_unaligned_be16(skb_vlan_tag_get(skb), to + front + 2);
		skb_copy_bits(skb, front, to + front + VLAN_HLEN, kept - front - VLAN_HLEN);
	} else {
		skb_copy_bits(skb, front, to + front, kept - front);
	}
}

static void xl_note(struct xl_cable *cable, u32 number, s64 now_ns, const struct xl_carried *carried)
{
	const struct sk_buff *skb = carried->frame ? carried->frame->content : NULL;
	u32 length = skb ? skb->len + (skb_vlan_tag_present(skb) ? VLAN_HLEN : 0) : 0;
	struct xl_record *record;
	struct xk_note *note;

	if (!xk_watcher)
		return;
	note = xk_new(&xk_carried, (struct xk_cable *)cable, number, min_t(u32, length, XL_KEPT));
	if (!note)
		return;
	record = &note->record;
	record->at_ns = carried->at_ns;
	record->what = carried->what;
	record->fate = carried->fate;
	record->sequence = carried->sequence;
	record->data = carried->data;
	record->length = length;
	if (skb) {
		xk_copy(skb, note->octets, record->kept);
		if (!carried->frame->has_sequence)
			record->flags = XL_IS_PLAIN;
		else if (cable->ends[number].report.state == XL_TX_REPLAY)
			record->flags = XL_IS_REPLAY;
	}
}

static void xk_event(struct xk_cable *cable, u32 number, u32 what, u32 sequence, u32 data)
{
	struct xk_note *note = xk_new(&xk_events, cable, number, 0);

	if (note) {
		note->record.at_ns = cable->rules.now_ns;
		note->record.what = what;
		note->record.sequence = sequence;
		note->record.data = data;
	}
}

static void xk_look(struct xk_cable *cable, u32 number)
{
	const struct xl_end *end = &cable->rules.ends[number];
	const u64 *counters = end->report.counters;

	if (counters[XL_C_TX_REPLAY] != cable->replays[number])
		xk_event(cable, number, XL_REPLAY, end->kept.first ? end->kept.first->sequence : end->next_sequence,
			 end->kept.count);
	if (end->report.flushes != cable->flushes[number])
		xk_event(cable, number, XL_FLUSH, end->next_sequence,
			 counters[XL_C_TX_DISCARD] - cable->discards[number]);
	cable->replays[number] = counters[XL_C_TX_REPLAY];
	cable->flushes[number] = end->report.flushes;
	cable->discards[number] = counters[XL_C_TX_DISCARD];
}

/* Fetch as many records as there is room for */
static long xk_fetch(struct xk_notes *notes, struct xl_fetch __user *from)
{
	struct xl_fetch fetch;
	u8 __user *to;

	if (copy_from_user(&fetch, from, sizeof(fetch)))
		return -EFAULT;
	to = u64_to_user_ptr(fetch.to);
	fetch.octets = 0;
	for (;;) {
		struct xk_note *note = notes->first;	/* who observes is not interrupted */
		u32 size = note ? sizeof(note->record) + note->record.kept : 0;

		if (!note || fetch.octets + size > fetch.room)
			break;
		if (copy_to_user(to + fetch.octets, &note->record, size))
			return -EFAULT;
		local_bh_disable();
		notes->first = note->next;
		if (!notes->first)
			notes->end = &notes->first;
		notes->count--;
		local_bh_enable();
		kfree(note);
		fetch.octets += size;
	}
	fetch.missed = notes->missed;
	if (!notes->first)
		notes->missed = 0;
	return copy_to_user(from, &fetch, sizeof(fetch)) ? -EFAULT : 0;
}

long xoff_line_ioctl(struct file *file, unsigned int command, unsigned long argument)
{
	switch (command) {
	case XL_WATCH:
		xk_watcher = file;
		return 0;
	case XL_READ:
		return xk_fetch(&xk_carried, (struct xl_fetch __user *)argument);
	case XL_EVENTS:
		return xk_fetch(&xk_events, (struct xl_fetch __user *)argument);
	}
	return -ENOTTY;
}

void xoff_line_closed(struct file *file)
{
	if (xk_watcher == file)
		xk_watcher = NULL;
}

/* Time and ports */

static void xk_set(struct xk_cable *cable)
{
	s64 deadline_ns;
	u32 number;

	for (number = 0; number < 2; number++) {
		struct xl_end *end = &cable->rules.ends[number];

		xk_look(cable, number);
		if (end->is_stopped == cable->is_stopped[number] || !cable->ports[number])
			continue;
		cable->is_stopped[number] = end->is_stopped;
		if (end->is_stopped)
			netif_tx_stop_queue(netdev_get_tx_queue(cable->ports[number], 0));
		else
			netif_tx_wake_queue(netdev_get_tx_queue(cable->ports[number], 0));
	}
	deadline_ns = xl_deadline(&cable->rules);
	if (deadline_ns == XL_NEVER)
		hrtimer_try_to_cancel(&cable->timer);
	else
		hrtimer_start(&cable->timer, ns_to_ktime(deadline_ns), HRTIMER_MODE_ABS_SOFT);
}

static bool xk_is_whole(const struct xk_cable *cable)
{
	return cable->qdiscs[0] && cable->qdiscs[1];
}

static enum hrtimer_restart xk_is_due(struct hrtimer *timer)
{
	struct xk_cable *cable = container_of(timer, struct xk_cable, timer);

	if (xk_is_whole(cable)) {
		xl_advance(&cable->rules, ktime_get_ns());
		xk_set(cable);
	}
	return HRTIMER_NORESTART;
}

/* The qdisc */

/* Frames of MAC control and of LLDP go to a group that no bridge forwards */
static bool xk_is_eligible(const struct sk_buff *skb)
{
	static const u8 reserved[] = { 0x01, 0x80, 0xC2, 0x00, 0x00 };

	return skb_headlen(skb) < ETH_ALEN || memcmp(skb->data, reserved, sizeof(reserved)) || skb->data[5] & 0xF0;
}

static int xk_enqueue(struct sk_buff *skb, struct Qdisc *sch, struct sk_buff **to_free)
{
	struct xk_line *line = qdisc_priv(sch);
	struct xk_cable *cable = line->cable;
	s64 now_ns = ktime_get_ns();
	struct xl_frame *frame;

	frame = xk_is_whole(cable) ? kzalloc(sizeof(*frame), GFP_ATOMIC) : NULL;
	if (!frame)
		return qdisc_drop(skb, sch, to_free);
	skb_orphan_partial(skb);
	frame->content = skb;
	frame->length = skb->len;
	frame->users = 1;
	sch->q.qlen++;
	qdisc_qstats_backlog_inc(sch, skb);
	xl_advance(&cable->rules, now_ns);
	xl_offer(&cable->rules, line->number, frame, xk_is_eligible(skb), now_ns);
	xk_set(cable);
	return NET_XMIT_SUCCESS;
}

static struct sk_buff *xk_dequeue(struct Qdisc *sch)
{
	struct xk_line *line = qdisc_priv(sch);
	struct sk_buff *skb = __skb_dequeue(&line->ready);

	if (skb) {
		sch->q.qlen--;
		qdisc_qstats_backlog_dec(sch, skb);
		qdisc_bstats_update(sch, skb);
	}
	return skb;
}

static int xk_change(struct Qdisc *sch, struct nlattr *options, struct netlink_ext_ack *extack)
{
	struct xk_line *line = qdisc_priv(sch);
	struct xl_settings given;

	if (!options || nla_len(options) < sizeof(given))
		return -EINVAL;
	nla_memcpy(&given, options, sizeof(given));
	if (!given.bps || given.delay_ns < 0 || (given.has_llr && (!given.frames || given.replay_timer_ns <= 0)))
		return -EINVAL;
	local_bh_disable();
	if (xk_is_whole(line->cable)) {
		struct xl_cable *rules = &line->cable->rules;

		xl_advance(rules, ktime_get_ns());
		xl_change(rules, line->number, &given, rules->now_ns);
		xk_set(line->cable);
	} else {
		line->cable->rules.ends[line->number].given = given;
	}
	local_bh_enable();
	return 0;
}

static void xk_start(struct xk_cable *cable, u32 number)
{
	if (cable->rules.ends[number].given.has_llr & XL_SENDS)
		xl_start(&cable->rules, number, cable->rules.now_ns);
}

static struct net_device *xk_peer(const struct net_device *dev)
{
	const struct rtnl_link_ops *ops = dev->rtnl_link_ops;

	if (!ops || !ops->get_link_net)
		return NULL;
	return __dev_get_by_index(ops->get_link_net(dev), dev_get_iflink(dev));
}

static int xk_init(struct Qdisc *sch, struct nlattr *options, struct netlink_ext_ack *extack)
{
	struct net_device *dev = qdisc_dev(sch), *other = __dev_get_by_index(dev_net(dev), dev->ifindex ^ 1);
	struct xk_line *line = qdisc_priv(sch);
	struct Qdisc *others;
	struct xk_cable *cable;
	int err;

	__skb_queue_head_init(&line->ready);
	line->number = (dev->ifindex ^ 1) & 1;
	if (!other)
		return -ENODEV;
	others = rtnl_dereference(other->qdisc);
	if (others && others->ops == &xk_ops) {
		cable = ((struct xk_line *)qdisc_priv(others))->cable;
	} else {
		cable = kzalloc(sizeof(*cable), GFP_KERNEL);
		if (!cable)
			return -ENOMEM;
		hrtimer_setup(&cable->timer, xk_is_due, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
	}
	line->cable = cable;
	cable->users++;
	err = xk_change(sch, options, extack);
	if (err)	/* xk_destroy follows */
		return err;
	local_bh_disable();
	cable->ports[line->number] = xk_peer(other);
	xl_prepare(&cable->rules.ends[line->number]);
	cable->qdiscs[line->number] = sch;
	if (xk_is_whole(cable)) {
		cable->rules.now_ns = ktime_get_ns();
		xk_start(cable, 0);
		xk_start(cable, 1);
		xk_set(cable);
	}
	local_bh_enable();
	return 0;
}

static void xk_empty(struct Qdisc *sch)
{
	struct xk_line *line = qdisc_priv(sch);
	struct sk_buff *skb;

	xl_reset(&line->cable->rules, line->number);
	while ((skb = __skb_dequeue(&line->ready)))
		kfree_skb_reason(skb, SKB_DROP_REASON_QDISC_DROP);
	sch->q.qlen = 0;
	sch->qstats.backlog = 0;
}

/* The cable is pulled, or its port set down: what is on it is gone, and the sender begins again */
static void xk_reset(struct Qdisc *sch)
{
	struct xk_line *line = qdisc_priv(sch);
	struct xk_cable *cable = line->cable;

	if (!cable || cable->qdiscs[line->number] != sch)
		return;
	local_bh_disable();
	xk_empty(sch);
	if (xk_is_whole(cable)) {
		xl_advance(&cable->rules, ktime_get_ns());
		xk_start(cable, line->number);
		xk_set(cable);
	}
	local_bh_enable();
}

static void xk_destroy(struct Qdisc *sch)
{
	struct xk_line *line = qdisc_priv(sch);
	struct xk_cable *cable = line->cable;

	if (!cable)
		return;
	local_bh_disable();
	if (cable->qdiscs[line->number] == sch) {
		xk_empty(sch);
		cable->qdiscs[line->number] = NULL;
		cable->ports[line->number ^ 1] = NULL;	/* which goes with this interface */
	}
	local_bh_enable();
	hrtimer_cancel(&cable->timer);
	if (!--cable->users)
		kfree(cable);
}

static int xk_dump_stats(struct Qdisc *sch, struct gnet_dump *dump)
{
	struct xk_line *line = qdisc_priv(sch);
	struct xl_report report = xl_reported(&line->cable->rules.ends[line->number]);

	return gnet_stats_copy_app(dump, &report, sizeof(report));
}

static struct Qdisc_ops xk_ops __read_mostly = {
	.id		= "xoff_line",
	.priv_size	= sizeof(struct xk_line),
	.enqueue	= xk_enqueue,
	.dequeue	= xk_dequeue,
	.peek		= qdisc_peek_dequeued,
	.init		= xk_init,
	.change		= xk_change,
	.reset		= xk_reset,
	.destroy	= xk_destroy,
	.dump_stats	= xk_dump_stats,
	.owner		= THIS_MODULE,
};

/* Called by xoff_observe_kern.c: an initcall more moves what a lab does at which moment, and with it all digests. */
int __init xoff_line_register(void)
{
	return register_qdisc(&xk_ops);
}
