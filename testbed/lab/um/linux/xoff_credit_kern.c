// SPDX-License-Identifier: GPL-2.0
/*
 * Credits between two ports (CBFC): a gate at each queue, which a frame passes if its credits are there, and the
 * messages by which credits come back.
 *
 * The messages are those of testbed/frames/link/credits.py.
 *
 * Stated in: testbed/switch/credits/sender.py, testbed/switch/credits/receiver.py.
 * Compared by: tests/lab/credits/test_credits.py.
 *
 * What a receiver has taken and freed is what the port program has charged to the priority group, and given back: the
 * counters are read in its map. When a frame leaves a port of the node, a timer looks at the group that it was charged
 * to, at the moment of its last bit.
 *
 * An ordered set goes out at once, between the bits of a frame, and the next frame begins its 8 octets later. All of it
 * runs in softirqs.
 */
#include <linux/anon_inodes.h>
#include <linux/bpf.h>
#include <linux/etherdevice.h>
#include <linux/fs.h>
#include <linux/hrtimer.h>
#include <linux/netdevice.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/xoff_credits.h>
#include <net/net_namespace.h>
#include <net/pkt_sched.h>
#include <net/sch_generic.h>
#include <trace/events/net.h>
#include "xoff_credit_device.h"

#define XC_FIRST_INTERFACE 4096	/* as in testbed/linux/port_program/port.bpf.c, and so are the marks of frames */
#define XC_MARK_BITS 0xF0000000u
#define XC_MARK 0xA0000000u
#define XC_MARK_SLOT 17
#define XC_MARK_PRIORITY 14

#define XC_NEVER S64_MAX
#define XC_SET 8		/* octets of an ordered set on the line, of a CC_Update, and beside a frame's own */
#define XC_CC 84
#define XC_BESIDE 24
#define XC_FREED_MASK 0x7fff
#define XC_USED_BITS 20
#define XC_LEAVING 8		/* frames of one port whose last bits are still to leave: two at most on a real line */
#define XC_TRIES 4

#define XC_HEAD 5		/* opcode and extension, behind the EtherType */
#define XC_CARRIED (XC_HEAD + XC_SET)
#define XC_CC_FRAME 60

struct xc_gate {
	struct xc_port *port;
	u32 vc;
};

struct xc_leaves {
	s64 due_ns;
	u32 slot;
};

struct xc_port {
	struct xc_add given;
	struct net *net;
	struct xc_gate gates[XC_VCS];
	struct xc_counters counts;

	/* As a sender */
	u8 waits;		/* virtual channels of which a frame was refused */
	bool is_blocked;	/* `line` is set, for a frame that waits for an ordered set to pass */
	s64 since_ns[XC_VCS];
	s64 frame_ends_ns, line_free_ns;
	struct hrtimer line, cc;

	/* As a receiver */
	s64 adjusted[XC_VCS];	/* what CC_Updates have added to both counts of the port program */
	u64 told[XC_VCS];
	u8 asked;
	u32 next_vc;
	bool is_sending;
	u8 set[XC_SET];
	s64 may_ns, refresh_ns;
	struct hrtimer cf;

	/* As any port of a node with a buffer */
	struct xc_leaves leaving[XC_LEAVING];
	u32 first, count, tries;
	struct hrtimer left;
};

bool xoff_credits_on;
static struct xc_port *xc_ports[XC_PORTS];
static struct bpf_map *xc_groups;
static struct xc_attach xc_given;
static bool xc_is_open, xc_is_tracing;
static DEFINE_MUTEX(xc_lock);

static const u8 xc_to[ETH_ALEN] = { 0x01, 0x80, 0xc2, 0, 0, 0x01 };
static const u8 xc_company[XC_HEAD] = { 0xff, 0xfe, 0xfa, 0x7a, 0xcb };
static const u8 xc_carrier[XC_HEAD] = { 0xff, 0xfe, 0x02, 0x58, 0x43 };

static s64 xc_line_ns(const struct xc_port *port, u32 octets)
{
	return (u64)octets * port->given.octet_ps / 1000;
}

static struct xc_port *xc_port_of(u32 slot)
{
	return slot < XC_PORTS ? xc_ports[slot] : NULL;
}

static void xc_send(struct xc_port *port, const u8 *octets, u32 length, u32 on_line)
{
	struct net_device *dev;
	s64 now = ktime_get_ns(), began = now - xc_line_ns(port, on_line);
	struct sk_buff *skb;

	rcu_read_lock();
	dev = dev_get_by_index_rcu(port->net, port->given.interface);
	skb = dev && netif_running(dev) ? alloc_skb(ETH_HLEN + length + LL_RESERVED_SPACE(dev), GFP_ATOMIC) : NULL;
	if (skb) {
		struct netdev_queue *queue = netdev_get_tx_queue(dev, 0);
		struct ethhdr *header;
		int rc;

		skb_reserve(skb, LL_RESERVED_SPACE(dev));
		skb_reset_mac_header(skb);
		header = skb_put(skb, ETH_HLEN);
		memcpy(header->h_dest, xc_to, ETH_ALEN);
		memcpy(header->h_source, port->given.source, ETH_ALEN);
		header->h_proto = htons(ETH_P_PAUSE);
		skb_set_network_header(skb, ETH_HLEN);
		skb_put_data(skb, octets, length);
		skb->dev = dev;
		skb->protocol = htons(ETH_P_PAUSE);
		skb_set_queue_mapping(skb, 0);
		local_bh_disable();
		HARD_TX_LOCK(dev, queue, smp_processor_id());
		skb = dev_hard_start_xmit(skb, dev, queue, &rc);
		HARD_TX_UNLOCK(dev, queue);
		local_bh_enable();
		kfree_skb(skb);
	}
	rcu_read_unlock();
	/* It came between the bits of the frame that is leaving: the next one begins so much later */
	if (port->line_free_ns > began)
		port->line_free_ns += xc_line_ns(port, on_line);
	else
		port->line_free_ns = now;
}

/* The sender */

static void xc_kick(struct xc_port *port)
{
	struct net_device *dev;

	rcu_read_lock();
	dev = dev_get_by_index_rcu(port->net, port->given.interface);
	if (dev)
		netif_schedule_queue(netdev_get_tx_queue(dev, 0));
	rcu_read_unlock();
}

static enum hrtimer_restart xc_line_is_free(struct hrtimer *timer)
{
	struct xc_port *port = container_of(timer, struct xc_port, line);

	port->is_blocked = false;
	xc_kick(port);
	return HRTIMER_NORESTART;
}

static u32 xc_credits_of(const struct xc_port *port, const struct sk_buff *skb)
{
	u32 length = skb->len + (skb_vlan_tag_present(skb) ? VLAN_HLEN : 0);

	return DIV_ROUND_UP(length, port->given.cell);
}

static u64 xc_credits_out(const struct xc_port *port)
{
	u64 out = 0;
	u32 vc;

	for (vc = 0; vc < XC_VCS; vc++)
		out += port->counts.used[vc];
	return out;
}

static bool xc_has_credits(const struct xc_port *port, u32 vc, u32 wanted)
{
	if (port->given.total)
		return xc_credits_out(port) + wanted <= port->given.total;
	return port->counts.used[vc] + wanted <= port->given.limits[vc];
}

bool xoff_gate_opens(struct xc_gate *gate, const struct sk_buff *skb)
{
	struct xc_port *port = gate->port;
	u32 vc = gate->vc;
	s64 now = ktime_get_ns();

	if (port->line_free_ns > port->frame_ends_ns && port->line_free_ns > now) {
		if (!port->is_blocked) {
			port->is_blocked = true;
			hrtimer_start(&port->line, ns_to_ktime(port->line_free_ns), HRTIMER_MODE_ABS_SOFT);
		}
		return false;
	}
	if (!(port->given.sends >> vc & 1) || xc_has_credits(port, vc, xc_credits_of(port, skb)))
		return true;
	if (!(port->waits >> vc & 1)) {
		port->waits |= 1 << vc;
		port->since_ns[vc] = now;
		port->counts.stalls[vc]++;
	}
	return false;
}

void xoff_gate_passed(struct xc_gate *gate, const struct sk_buff *skb)
{
	struct xc_port *port = gate->port;
	struct xc_counters *counts = &port->counts;
	s64 now = ktime_get_ns();
	u32 vc = gate->vc;

	port->frame_ends_ns = port->line_free_ns = now + xc_line_ns(port, skb->len + XC_BESIDE);
	if (!(port->given.sends >> vc & 1))
		return;
	if (port->waits >> vc & 1) {
		port->waits ^= 1 << vc;
		counts->stalled_ns[vc] += now - port->since_ns[vc];
	}
	counts->consumed[vc] += xc_credits_of(port, skb);
	counts->used[vc] = counts->consumed[vc] - counts->freed[vc];
	counts->used_watermark[vc] = max(counts->used_watermark[vc], counts->used[vc]);
	if (!hrtimer_active(&port->cc))
		hrtimer_start(&port->cc, ns_to_ktime(now + xc_line_ns(port, port->given.cc_interval)),
			      HRTIMER_MODE_ABS_SOFT);
}

static enum hrtimer_restart xc_cc_is_due(struct hrtimer *timer)
{
	struct xc_port *port = container_of(timer, struct xc_port, cc);
	u8 frame[XC_CC_FRAME - ETH_HLEN] = { 0 };
	u32 vc, bit, at;

	if (!xc_credits_out(port))
		return HRTIMER_NORESTART;
	memcpy(frame, xc_company, XC_HEAD);
	frame[XC_HEAD] = 1;
	for (vc = 0; vc < XC_VCS; vc++)
		for (bit = 0; bit < XC_USED_BITS; bit++) {
			at = vc * XC_USED_BITS + bit;
			if (port->counts.consumed[vc] >> (XC_USED_BITS - 1 - bit) & 1)
				frame[XC_HEAD + 1 + at / 8] |= 0x80 >> at % 8;
		}
	port->counts.cc_tx++;
	xc_send(port, frame, sizeof(frame), XC_CC);
	hrtimer_forward_now(timer, ns_to_ktime(xc_line_ns(port, port->given.cc_interval)));
	return HRTIMER_RESTART;
}

static bool xc_apply_freed(struct xc_port *port, const u8 *octets)
{
	u32 bits = octets[0] << 16 | octets[1] << 8 | octets[2], vc = bits >> 19 & 0x1f, back;
	struct xc_counters *counts = &port->counts;

	if (vc >= XC_VCS || !(port->given.sends >> vc & 1))
		return false;
	back = ((bits >> 4) - counts->freed[vc]) & XC_FREED_MASK;
	if (back > counts->used[vc]) {
		counts->cf_refused++;
		return false;
	}
	counts->freed[vc] += back;
	counts->used[vc] -= back;
	return back && (port->given.total ? port->waits : port->waits >> vc & 1);
}

static void xc_receive_cf(struct xc_port *port, const u8 *set)
{
	bool goes_on;

	if (set[0] != 0x5c || set[1] != 0x10 || (set[4] & 0xf) != 0x6)
		return;
	port->counts.cf_rx++;
	goes_on = xc_apply_freed(port, set + 2);
	/* Whoever names one virtual channel twice says the same of it */
	if ((set[2] ^ set[5]) & 0xf8 && xc_apply_freed(port, set + 5))
		goes_on = true;
	if (!xc_credits_out(port))
		hrtimer_try_to_cancel(&port->cc);
	if (goes_on)
		xc_kick(port);
}

/* The receiver */

static u64 xc_count(const struct xc_port *port, u32 vc, u32 at)
{
	u32 key = port->given.slot * XC_VCS + vc;
	const void *group = xc_groups->ops->map_lookup_elem(xc_groups, &key);

	return (group ? *(const u64 *)(group + at) : 0) + port->adjusted[vc];
}

static u64 xc_freed(const struct xc_port *port, u32 vc)
{
	return xc_count(port, vc, xc_given.released_at);
}

static u8 xc_changed(const struct xc_port *port)
{
	u8 changed = 0;
	u32 vc;

	for (vc = 0; vc < XC_VCS; vc++)
		if (port->given.receives >> vc & 1 && xc_freed(port, vc) != port->told[vc])
			changed |= 1 << vc;
	return changed;
}

static s64 xc_cf_due(const struct xc_port *port)
{
	return port->asked || xc_changed(port) ? port->may_ns : max(port->refresh_ns, port->may_ns);
}

/* Have the next CF_Update sent when it is due */
static void xc_tell(struct xc_port *port)
{
	s64 due_ns;

	if (port->is_sending)
		return;
	due_ns = xc_cf_due(port);
	if (due_ns == XC_NEVER)
		hrtimer_try_to_cancel(&port->cf);
	else if (!hrtimer_is_queued(&port->cf) || ktime_to_ns(hrtimer_get_expires(&port->cf)) != due_ns)
		hrtimer_start(&port->cf, ns_to_ktime(max_t(s64, due_ns, ktime_get_ns())), HRTIMER_MODE_ABS_SOFT);
}

/* What the ordered set says is settled with its first bit; it is there with its last one */
static void xc_begin_set(struct xc_port *port, s64 now)
{
	u8 said = xc_changed(port) | port->asked ?: port->given.receives, holds = 0, turns = 0;
	u32 vc, i, bits = 0, at = 2;

	for (vc = 0; vc < XC_VCS; vc++)
		if (port->given.receives >> vc & 1 && xc_count(port, vc, xc_given.admitted_at) != xc_freed(port, vc))
			holds |= 1 << vc;
	memset(port->set, 0, XC_SET);
	port->set[0] = 0x5c;
	port->set[1] = 0x10;
	for (i = 0; i < XC_VCS && turns < 2; i++) {
		vc = (port->next_vc + i) % XC_VCS;
		if (!(said >> vc & 1))
			continue;
		port->told[vc] = xc_freed(port, vc);
		port->asked &= ~(1 << vc);
		bits = vc << 19 | (port->told[vc] & XC_FREED_MASK) << 4;
		for (at = 2 + 3 * turns; at < 5 + 3 * turns; at++)
			port->set[at] = bits >> 8 * (4 + 3 * turns - at);
		turns++;
		port->next_vc = (vc + 1) % XC_VCS;
		if (turns == 2)
			break;
	}
	if (turns == 1)
		memcpy(port->set + 5, port->set + 2, 3);
	port->set[4] |= 0x6;
	port->may_ns = now + xc_line_ns(port, port->given.cf_min);
	port->refresh_ns = holds ? now + xc_line_ns(port, port->given.cf_max) : XC_NEVER;
	port->is_sending = true;
}

static enum hrtimer_restart xc_cf_is_due(struct hrtimer *timer)
{
	struct xc_port *port = container_of(timer, struct xc_port, cf);
	u8 frame[XC_CARRIED];
	s64 now = ktime_get_ns();

	if (port->is_sending) {
		memcpy(frame, xc_carrier, XC_HEAD);
		memcpy(frame + XC_HEAD, port->set, XC_SET);
		port->is_sending = false;
		port->counts.cf_tx++;
		xc_send(port, frame, sizeof(frame), XC_SET);
		xc_tell(port);
	} else if (xc_cf_due(port) <= now) {
		xc_begin_set(port, now);
		hrtimer_start(timer, ns_to_ktime(now + xc_line_ns(port, XC_SET)), HRTIMER_MODE_ABS_SOFT);
	} else {
		xc_tell(port);
	}
	return HRTIMER_NORESTART;
}

static void xc_receive_cc(struct xc_port *port, const u8 *counters)
{
	u32 vc, bit, at, count;
	s32 missing;

	port->counts.cc_rx++;
	for (vc = 0; vc < XC_VCS; vc++) {
		if (!(port->given.receives >> vc & 1))
			continue;
		for (bit = 0, count = 0; bit < XC_USED_BITS; bit++) {
			at = vc * XC_USED_BITS + bit;
			count = count << 1 | (counters[at / 8] >> (7 - at % 8) & 1);
		}
		missing = (s32)((count - (u32)xc_count(port, vc, xc_given.admitted_at)) << (32 - XC_USED_BITS)) >>
			  (32 - XC_USED_BITS);
		port->adjusted[vc] += missing;
		port->counts.lost[vc] += max(missing, 0);
		port->asked |= 1 << vc;
	}
	xc_tell(port);
}

bool xoff_credits_receive(const struct sk_buff *skb)
{
	struct xc_port *port = xc_port_of(skb->dev->ifindex - XC_FIRST_INTERFACE);
	u8 octets[XC_CC_FRAME - ETH_HLEN];
	const u8 *head;

	if (!port)
		return false;
	head = skb_header_pointer(skb, 0, XC_CARRIED, octets);
	if (head && !memcmp(head, xc_carrier, XC_HEAD)) {
		xc_receive_cf(port, head + XC_HEAD);
		return true;
	}
	head = skb_header_pointer(skb, 0, sizeof(octets), octets);
	if (head && !memcmp(head, xc_company, XC_HEAD) && head[XC_HEAD] == 1) {
		xc_receive_cc(port, head + XC_HEAD + 1);
		return true;
	}
	return false;
}

/* A frame leaves: its cells come free with its last bit. The port program frees them by a timer of its own, which may
 * be behind this one at the same moment.
 */
static enum hrtimer_restart xc_has_left(struct hrtimer *timer)
{
	struct xc_port *out = container_of(timer, struct xc_port, left), *in;
	s64 now = ktime_get_ns();
	struct xc_leaves *gone;

	while (out->count) {
		gone = &out->leaving[out->first % XC_LEAVING];
		if (gone->due_ns > now)
			break;
		in = xc_port_of(gone->slot);
		if (in && !xc_changed(in) && out->tries++ < XC_TRIES)
			break;
		if (in)
			xc_tell(in);
		out->tries = 0;
		out->first++;
		out->count--;
	}
	if (out->count)
		hrtimer_start(timer, ns_to_ktime(max(out->leaving[out->first % XC_LEAVING].due_ns, now)),
			      HRTIMER_MODE_ABS_SOFT);
	return HRTIMER_NORESTART;
}

static void xc_leaves(void *data, const struct sk_buff *skb, const struct net_device *dev)
{
	struct xc_port *out, *in;
	u32 slot = skb->mark >> XC_MARK_SLOT & (XC_PORTS - 1), vc = skb->mark >> XC_MARK_PRIORITY & 7;
	struct xc_leaves *last;

	if ((skb->mark & XC_MARK_BITS) != XC_MARK)
		return;
	out = xc_port_of(dev->ifindex - XC_FIRST_INTERFACE);
	in = xc_port_of(slot);
	if (!out || !in || !(in->given.receives >> vc & 1) || out->count == XC_LEAVING)
		return;
	last = &out->leaving[(out->first + out->count++) % XC_LEAVING];
	last->slot = slot;
	last->due_ns = ktime_get_ns() + (u64)(skb->len + XC_BESIDE) * out->given.held_ps / 1000;
	if (out->count == 1)
		hrtimer_start(&out->left, ns_to_ktime(last->due_ns), HRTIMER_MODE_ABS_SOFT);
}

/* Commands */

static struct Qdisc *xc_plug(struct net_device *dev, u32 below)
{
	struct Qdisc *above = qdisc_lookup_rcu(dev, TC_H_MAJ(below)), *plug;
	unsigned long class;

	if (!above || !above->ops->cl_ops)
		return NULL;
	class = above->ops->cl_ops->find(above, below);
	plug = class ? above->ops->cl_ops->leaf(above, class) : NULL;
	return plug && !strcmp(plug->ops->id, "plug") ? plug : NULL;
}

static void xc_set_gates(struct xc_port *port, bool has)
{
	struct net_device *dev;
	struct Qdisc *plug;
	u32 vc, i;

	rcu_read_lock();
	dev = dev_get_by_index_rcu(port->net, port->given.interface);
	for (vc = 0; dev && vc < XC_VCS; vc++)
		for (i = 0; i < XC_PLACES && port->given.places[vc][i]; i++) {
			plug = xc_plug(dev, port->given.places[vc][i]);
			if (plug)
				xoff_plug_gate(plug, has ? &port->gates[vc] : NULL);
		}
	rcu_read_unlock();
}

static long xc_attach(const struct xc_attach __user *from)
{
	struct bpf_map *groups;

	if (xc_groups)
		return -EBUSY;
	if (copy_from_user(&xc_given, from, sizeof(xc_given)))
		return -EFAULT;
	groups = bpf_map_get(xc_given.groups);
	if (IS_ERR(groups))
		return PTR_ERR(groups);
	if (groups->map_type != BPF_MAP_TYPE_ARRAY || xc_given.admitted_at % 8 || xc_given.released_at % 8 ||
	    max(xc_given.admitted_at, xc_given.released_at) + 8 > groups->value_size) {
		bpf_map_put(groups);
		return -EINVAL;
	}
	xc_groups = groups;
	return 0;
}

static long xc_add(const struct xc_add __user *from)
{
	struct xc_port *port;
	u32 vc;

	if (!xc_groups)
		return -EINVAL;
	port = kzalloc(sizeof(*port), GFP_KERNEL);
	if (!port)
		return -ENOMEM;
	if (copy_from_user(&port->given, from, sizeof(port->given)))
		goto bad;
	if (port->given.slot >= XC_PORTS || xc_ports[port->given.slot] || (port->given.sends && !port->given.cell) ||
	    !xc_line_ns(port, port->given.cf_min) || !xc_line_ns(port, port->given.cc_interval))
		goto bad;
	port->net = get_net_ns_by_fd(port->given.network);
	if (IS_ERR(port->net))
		goto bad;
	port->may_ns = 0;
	port->refresh_ns = XC_NEVER;
	hrtimer_setup(&port->line, xc_line_is_free, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
	hrtimer_setup(&port->cc, xc_cc_is_due, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
	hrtimer_setup(&port->cf, xc_cf_is_due, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
	hrtimer_setup(&port->left, xc_has_left, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
	for (vc = 0; vc < XC_VCS; vc++)
		port->gates[vc] = (struct xc_gate){ .port = port, .vc = vc };
	xc_ports[port->given.slot] = port;
	if (port->given.sends | port->given.receives)
		xc_set_gates(port, true);
	if (!xc_is_tracing) {
		xc_is_tracing = true;
		register_trace_net_dev_start_xmit(xc_leaves, NULL);
	}
	xoff_credits_on = true;
	return 0;
bad:
	kfree(port);
	return -EINVAL;
}

static long xc_read(const struct xc_read __user *from)
{
	struct xc_counters counts;
	struct xc_read wanted;
	struct xc_port *port;
	u32 vc;

	if (copy_from_user(&wanted, from, sizeof(wanted)))
		return -EFAULT;
	port = xc_port_of(wanted.slot);
	if (!port)
		return -ENOENT;
	counts = port->counts;
	for (vc = 0; vc < XC_VCS; vc++) {
		if (port->waits >> vc & 1)
			counts.stalled_ns[vc] += ktime_get_ns() - port->since_ns[vc];
		if (!(port->given.receives >> vc & 1))
			continue;
		counts.receiver_consumed[vc] = xc_count(port, vc, xc_given.admitted_at);
		counts.receiver_freed[vc] = xc_freed(port, vc);
	}
	return copy_to_user((void __user *)(unsigned long)wanted.counters, &counts, sizeof(counts)) ? -EFAULT : 0;
}

static long xc_ioctl(struct file *file, unsigned int command, unsigned long argument)
{
	void __user *from = (void __user *)argument;
	long result = -ENOTTY;

	mutex_lock(&xc_lock);
	if (command == XC_ATTACH)
		result = xc_attach(from);
	else if (command == XC_ADD)
		result = xc_add(from);
	else if (command == XC_READ)
		result = xc_read(from);
	mutex_unlock(&xc_lock);
	return result;
}

static int xc_release(struct inode *inode, struct file *file)
{
	struct xc_port *port;
	u32 slot;

	mutex_lock(&xc_lock);
	xoff_credits_on = false;
	if (xc_is_tracing) {
		unregister_trace_net_dev_start_xmit(xc_leaves, NULL);
		tracepoint_synchronize_unregister();
		xc_is_tracing = false;
	}
	for (slot = 0; slot < XC_PORTS; slot++) {
		port = xc_ports[slot];
		if (port)
			xc_set_gates(port, false);
	}
	synchronize_net();
	for (slot = 0; slot < XC_PORTS; slot++) {
		port = xc_ports[slot];
		if (!port)
			continue;
		hrtimer_cancel(&port->left);
		hrtimer_cancel(&port->cf);
		hrtimer_cancel(&port->cc);
		hrtimer_cancel(&port->line);
		xc_ports[slot] = NULL;
		put_net(port->net);
		kfree(port);
	}
	if (xc_groups)
		bpf_map_put(xc_groups);
	xc_groups = NULL;
	xc_is_open = false;
	mutex_unlock(&xc_lock);
	return 0;
}

static const struct file_operations xc_operations = {
	.owner = THIS_MODULE,
	.release = xc_release,
	.unlocked_ioctl = xc_ioctl,
};

long xoff_credits_open(void)
{
	long file = -EBUSY;

	mutex_lock(&xc_lock);
	if (!xc_is_open)
		file = anon_inode_getfd("[xoff-credits]", &xc_operations, NULL, O_RDWR | O_CLOEXEC);
	xc_is_open |= file >= 0;
	mutex_unlock(&xc_lock);
	return file;
}
