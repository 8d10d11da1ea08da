// SPDX-License-Identifier: GPL-2.0
/*
 * Cables whose ends are in different User-Mode Linux kernels.
 *
 * Each kernel is a part of one network and has a clock of its own. None goes to its horizon, the earliest moment at
 * which a frame that it does not know yet could arrive: the least of (the moment before which a part does nothing + the
 * delay of the cables from there). A part whose next event is at its horizon or later says so in memory that all share,
 * shows what it has sent, and waits until the horizon moves.
 *
 * A frame is delivered at the nanosecond at which it arrives, before anything else that happens then, and by the
 * number of its cable. So what a lab does depends on how it is divided and on nothing else: neither on when the host
 * runs which kernel nor on where the horizons were.
 */
#include <linux/etherdevice.h>
#include <linux/init.h>
#include <linux/miscdevice.h>
#include <linux/netdevice.h>
#include <linux/slab.h>
#include <linux/time-internal.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>
#include <linux/wait.h>
#include <net/rtnetlink.h>
#include "xoff.h"
#include "xoff_cable.h"
#include "xoff_cable_device.h"

#define XC_WINDOWS_NOTED	(1 << 18)

struct xc_cable {
	u32 here, there;	/* which of its ends; the part of the other one. Both ends may be elsewhere. */
	bool is_ours;
	struct net_device *dev;
	struct sk_buff_head frames;	/* on their way to this end, by their arrival */
	u64 delay, least_delay;
	u64 lost_until;		/* what arrives before this moment was in the cable when it was pulled */
	u64 random;
	u32 loss;
	struct xc_count count;
};

/* The interface that is an end of a cable. One of a network before this may still be there, and carries nothing. */
struct xc_port {
	u32 number, generation;
};

struct xc_arrival {
	u64 at;
};

static struct xc_memory *memory;
static struct xc_part *me;
static u32 part, parts;
static unsigned int patience;
static struct xc_cable *cables;
static u32 cable_count;
static u64 distance[XC_PARTS][XC_PARTS];	/* the shortest way; to itself, the shortest circle */
static u64 farthest;
static u64 step;				/* the shortest way from another part to this one */
static u64 sent_first[XC_PARTS];		/* of what was sent since it was shown */
static u32 windows;			/* since somebody asked for them */
static u32 *worked;			/* ns of CPU time in each of the first ones; NULL before somebody has asked */
static u64 worked_until;
static unsigned char staged[XC_FRAME];

static DECLARE_WAIT_QUEUE_HEAD(xc_wait);
static DEFINE_MUTEX(xc_mutex);
static bool has_given, has_result, is_broken;

static void deliver(struct time_travel_event *event);
static struct time_travel_event delivery = { .fn = deliver };

static struct xc_ring *ring_of(u32 from, u32 to)
{
	return (void *)memory + XC_RINGS_AT + ((unsigned long)from * parts + to) * sizeof(struct xc_ring);
}

static void *box_of(u32 of, u64 number)
{
	return (void *)memory + XC_RINGS_AT + (unsigned long)parts * parts * sizeof(struct xc_ring) +
	       (2UL * of + (number & 1)) * XC_BOX;
}

static struct xc_arrival *arrival_of(struct sk_buff *skb)
{
	return (struct xc_arrival *)skb->cb;
}

static bool is_in(const struct xc_part *one)
{
	return one->generation == me->generation && one->state != XC_OUT;
}

/* When all have given what @of waits for; XC_NEVER if it does not wait, or some have not given */
static u64 result_at(const struct xc_part *of, bool *broken)
{
	u64 at = 0, number = of->given;
	u32 q;

	for (q = 0; q < parts; q++) {
		const struct xc_part *one = &memory->part[q];

		if (one->given >= number) {
			at = max(at, one->given_at[number & 1]);
		} else if (one->generation > me->generation || one->state == XC_OUT) {
			at = max(at, one->left[me->generation & 1]);
			*broken = true;
		} else {
			return XC_NEVER;
		}
	}
	return at + farthest;
}

/* The moment before which a part does nothing that is not known already */
static u64 begins(u32 q)
{
	const struct xc_part *one = &memory->part[q];
	bool broken = false;

	if (!is_in(one))
		return XC_NEVER;
	if (one->state != XC_WAITS)
		return one->base;
	return min3(one->next, one->frames, one->waits_for_all ? result_at(one, &broken) : XC_NEVER);
}

static u64 horizon_of(u32 q, const u64 *begin)
{
	u64 horizon = XC_NEVER;
	u32 r;

	for (r = 0; r < parts; r++)
		if (begin[r] != XC_NEVER && distance[r][q] != XC_NEVER)
			horizon = min(horizon, begin[r] + distance[r][q]);
	return horizon;
}

/* Wake each part that waits and need not any more; return the horizon of this one */
static u64 wake_others(void)
{
	u64 begin[XC_PARTS];
	u32 q;

	for (q = 0; q < parts; q++)
		begin[q] = begins(q);
	for (q = 0; q < parts; q++)
		if (q != part && memory->part[q].state == XC_WAITS && begin[q] < horizon_of(q, begin))
			xoff_cable_ring(&memory->part[q]);
	return horizon_of(part, begin);
}

/* Show others what was sent to them */
static void show(void)
{
	u32 q;

	for (q = 0; q < parts; q++) {
		if (sent_first[q] == XC_NEVER)
			continue;
		memory->part[q].frames = min(memory->part[q].frames, sent_first[q]);
		sent_first[q] = XC_NEVER;
		ring_of(part, q)->visible = ring_of(part, q)->head;
	}
}

static void ring_read(const struct xc_ring *ring, u64 at, void *to, u32 length)
{
	u32 place = at % XC_RING, first = min_t(u32, length, XC_RING - place);

	memcpy(to, ring->octets + place, first);
	memcpy(to + first, ring->octets, length - first);
}

static void ring_write(struct xc_ring *ring, u64 at, const void *from, u32 length)
{
	u32 place = at % XC_RING, first = min_t(u32, length, XC_RING - place);

	memcpy(ring->octets + place, from, first);
	memcpy(ring->octets, from + first, length - first);
}

static u32 room_of(u32 length)
{
	return sizeof(struct xc_head) + round_up(length, 8);
}

static void keep(const struct xc_ring *ring, const struct xc_head *head)
{
	struct xc_cable *cable;
	struct sk_buff *skb, *before;

	if (head->generation != me->generation || head->cable >= cable_count)
		return;
	cable = &cables[head->cable];
	skb = cable->dev ? netdev_alloc_skb_ip_align(cable->dev, head->length) : NULL;
	if (!skb) {
		cable->count.dropped++;
		return;
	}
	ring_read(ring, ring->tail + sizeof(*head), skb_put(skb, head->length), head->length);
	if (head->is_partial)
		skb_partial_csum_set(skb, head->csum_start, head->csum_offset);
	arrival_of(skb)->at = head->arrival;
	skb_queue_reverse_walk(&cable->frames, before)
		if (arrival_of(before)->at <= head->arrival)
			break;
	__skb_queue_after(&cable->frames, before, skb);
}

/* Take what others have shown */
static void take(void)
{
	u32 q;

	for (q = 0; q < parts; q++) {
		struct xc_ring *ring = ring_of(q, part);

		if (q == part)
			continue;
		while (ring->tail != ring->visible) {
			struct xc_head head;

			ring_read(ring, ring->tail, &head, sizeof(head));
			keep(ring, &head);
			smp_store_release(&ring->tail, ring->tail + room_of(head.length));
		}
		if (ring->wants_room) {
			ring->wants_room = 0;
			xoff_cable_ring(&memory->part[q]);
		}
	}
	me->frames = XC_NEVER;
}

/* The cable whose first frame arrives first; by its number if several do */
static struct xc_cable *first_cable(u64 *at)
{
	struct xc_cable *found = NULL;
	u32 i;

	*at = XC_NEVER;
	for (i = 0; i < cable_count; i++) {
		struct sk_buff *skb = skb_peek(&cables[i].frames);

		if (skb && arrival_of(skb)->at < *at) {
			*at = arrival_of(skb)->at;
			found = &cables[i];
		}
	}
	return found;
}

/* Frames and what all have given come by one event, so that their order at one moment is always the same. */
static void plan_delivery(void)
{
	u64 first;

	first_cable(&first);
	if (me->waits_for_all)
		first = min(first, result_at(me, &is_broken));
	if (delivery.pending) {
		if (delivery.time <= first && first != XC_NEVER)
			return;
		time_travel_del_event(&delivery);
	}
	if (first != XC_NEVER)
		time_travel_add_event_first(&delivery, max(first, time_travel_now()));
}

static u64 mixed(u64 digest, u64 word)
{
	digest = (digest ^ word) * 0x9e3779b97f4a7c15ULL;
	return digest ^ digest >> 32;
}

static void note(struct xc_cable *cable, const struct sk_buff *skb)
{
	u64 digest = mixed(mixed(cable->count.digest, arrival_of((struct sk_buff *)skb)->at), skb->len), word;
	u32 i;

	for (i = 0; i + 8 <= skb->len; i += 8) {
		memcpy(&word, skb->data + i, 8);
		digest = mixed(digest, word);
	}
	word = 0;
	memcpy(&word, skb->data + i, skb->len - i);
	cable->count.digest = mixed(digest, word);
	cable->count.received++;
	cable->count.received_octets += skb->len;
}

static void receive(struct xc_cable *cable, struct sk_buff *skb)
{
	struct net_device *dev = cable->dev;

	if (arrival_of(skb)->at < cable->lost_until || !dev || !netif_running(dev)) {
		cable->count.dropped++;
		consume_skb(skb);	/* it is counted, and not to be taken for one that died in a queue */
		return;
	}
	note(cable, skb);
	memset(skb->cb, 0, sizeof(skb->cb));
	skb->dev = dev;
	skb->protocol = eth_type_trans(skb, dev);
	dev_sw_netstats_rx_add(dev, skb->len);
	netif_rx(skb);
}

static void deliver(struct time_travel_event *event)
{
	u64 now = time_travel_now(), at;
	struct xc_cable *cable;

	while ((cable = first_cable(&at)) && at <= now)
		receive(cable, __skb_dequeue(&cable->frames));
	if (me->waits_for_all && result_at(me, &is_broken) <= now) {
		me->waits_for_all = 0;
		has_result = true;
		wake_up(&xc_wait);
	}
	plan_delivery();
}

/* Note what this kernel has worked since the last window; waiting for others does not belong to any. */
static void note_window(void)
{
	if (windows < XC_WINDOWS_NOTED)
		worked[windows] = xoff_cable_cpu_ns() - worked_until;
	windows++;
}

/*
 * The next event is at the horizon or later: wait until it is not. The kernel's timers call this.
 *
 * A part goes no further than the next multiple of the shortest way to it, so that parts begin and end their windows
 * together. If one began in the middle of another's, the first would have a long one while the second waits, and then
 * the other way round, and they would work one after the other for as long as the network runs.
 */
static void at_horizon(void)
{
	unsigned long flags;

	local_irq_save(flags);
	if (unlikely(worked))
		note_window();
	xoff_cable_lock(&memory->lock);
	show();
	for (;;) {
		u64 horizon;
		u32 seen;

		take();
		plan_delivery();
		me->next = time_travel_next();
		me->state = XC_WAITS;
		horizon = wake_others();
		if (me->next < horizon) {
			me->state = XC_RUNS;
			me->base = me->next;
			time_travel_horizon = min(horizon, (me->next / step + 1) * step);
			break;
		}
		seen = READ_ONCE(me->bell);
		xoff_cable_unlock(&memory->lock);
		xoff_cable_sleep(me, seen, patience);
		xoff_cable_lock(&memory->lock);
	}
	xoff_cable_unlock(&memory->lock);
	if (unlikely(worked))
		worked_until = xoff_cable_cpu_ns();
	local_irq_restore(flags);
}

/* Wait until the part that frames go to has taken some; it does so whenever it comes to its horizon, or waits itself */
static void wait_for_room(struct xc_ring *ring, u32 to, u32 wanted)
{
	unsigned long flags;

	local_irq_save(flags);
	while (XC_RING - (ring->head - smp_load_acquire(&ring->tail)) < wanted) {
		u32 seen;

		xoff_cable_lock(&memory->lock);
		show();
		take();
		plan_delivery();
		if (!is_in(&memory->part[to])) {
			xoff_cable_unlock(&memory->lock);
			break;
		}
		ring->wants_room = 1;
		seen = READ_ONCE(me->bell);
		xoff_cable_ring(&memory->part[to]);
		xoff_cable_unlock(&memory->lock);
		if (XC_RING - (ring->head - smp_load_acquire(&ring->tail)) < wanted)
			xoff_cable_sleep(me, seen, patience);
	}
	local_irq_restore(flags);
}

static bool is_lost(struct xc_cable *cable)
{
	u64 z;

	if (!cable->loss)
		return false;
	z = cable->random += 0x9e3779b97f4a7c15ULL;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return (u32)(z ^ z >> 31) < cable->loss;
}

static netdev_tx_t xc_xmit(struct sk_buff *skb, struct net_device *dev)
{
	const struct xc_port *port = netdev_priv(dev);
	struct xc_cable *cable = &cables[port->number];
	struct xc_ring *ring = ring_of(part, cable->there);
	struct xc_head head = { .arrival = time_travel_now() + cable->delay, .cable = port->number,
				.generation = me->generation, .length = skb->len };
	u32 wanted = room_of(skb->len);

	if (skb->len > XC_FRAME || !is_in(me) || port->generation != me->generation) {
		dev_core_stats_tx_dropped_inc(dev);
		kfree_skb(skb);
		return NETDEV_TX_OK;
	}
	cable->count.sent++;
	cable->count.sent_octets += skb->len;
	if (is_lost(cable)) {
		cable->count.lost++;
		consume_skb(skb);
		return NETDEV_TX_OK;
	}
	if (XC_RING - (ring->head - smp_load_acquire(&ring->tail)) < wanted)
		wait_for_room(ring, cable->there, wanted);
	if (XC_RING - (ring->head - smp_load_acquire(&ring->tail)) < wanted)
		goto out;	/* the other part has left */
	if (skb->ip_summed == CHECKSUM_PARTIAL) {
		head.is_partial = 1;
		head.csum_start = skb_checksum_start_offset(skb);
		head.csum_offset = skb->csum_offset;
	}
	skb_copy_bits(skb, 0, staged, skb->len);
	ring_write(ring, ring->head, &head, sizeof(head));
	ring_write(ring, ring->head + sizeof(head), staged, skb->len);
	sent_first[cable->there] = min(sent_first[cable->there], head.arrival);
	smp_store_release(&ring->head, ring->head + wanted);
out:
	dev_sw_netstats_tx_add(dev, 1, skb->len);
	dev_consume_skb_any(skb);
	return NETDEV_TX_OK;
}

static const struct net_device_ops xc_netdev_ops = {
	.ndo_start_xmit = xc_xmit,
	.ndo_validate_addr = eth_validate_addr,
	.ndo_set_mac_address = eth_mac_addr,
};

static void xc_setup(struct net_device *dev)
{
	ether_setup(dev);
	dev->netdev_ops = &xc_netdev_ops;
	dev->needs_free_netdev = true;
	dev->pcpu_stat_type = NETDEV_PCPU_STAT_TSTATS;
	dev->priv_flags &= ~IFF_TX_SKB_SHARING;
	dev->priv_flags |= IFF_NO_QUEUE | IFF_LIVE_ADDR_CHANGE;
	dev->lltx = true;
	dev->features = dev->hw_features = NETIF_F_HW_CSUM | NETIF_F_SG | NETIF_F_FRAGLIST;
	dev->max_mtu = XC_FRAME - ETH_HLEN - 8;
}

static const struct nla_policy xc_policy[] = { [1] = { .type = NLA_U32 } };

/* Attribute 1 of IFLA_INFO_DATA is the number of the cable whose end the interface is. */
static int xc_new(struct net_device *dev, struct rtnl_newlink_params *params, struct netlink_ext_ack *extack)
{
	u32 number = params->data && params->data[1] ? nla_get_u32(params->data[1]) : U32_MAX;
	struct xc_port *port = netdev_priv(dev);
	int err;

	if (!is_in(me) || number >= cable_count || !cables[number].is_ours || cables[number].dev)
		return -EINVAL;
	*port = (struct xc_port){ number, me->generation };
	if (!params->tb[IFLA_ADDRESS])
		eth_hw_addr_random(dev);
	err = register_netdevice(dev);
	if (!err)
		cables[number].dev = dev;
	return err;
}

static void xc_delete(struct net_device *dev, struct list_head *head)
{
	const struct xc_port *port = netdev_priv(dev);

	if (cables[port->number].dev == dev)
		cables[port->number].dev = NULL;
	unregister_netdevice_queue(dev, head);
}

static struct rtnl_link_ops xc_link = {
	.kind = "xoffcable",
	.priv_size = sizeof(struct xc_port),
	.maxtype = 1,
	.policy = xc_policy,
	.setup = xc_setup,
	.newlink = xc_new,
	.dellink = xc_delete,
};

/* The shortest ways between parts; an error if there is none between some */
static int measure(const struct xc_cut *cuts, u32 count)
{
	u32 i, j, k;

	for (i = 0; i < parts; i++)
		for (j = 0; j < parts; j++)
			distance[i][j] = XC_NEVER;
	for (i = 0; i < count; i++) {
		u32 a = cuts[i].part[0], b = cuts[i].part[1];

		if (a >= parts || b >= parts || a == b || !cuts[i].delay || cuts[i].delay > XC_NEVER / 1024)
			return -EINVAL;
		distance[a][b] = distance[b][a] = min(distance[a][b], cuts[i].delay);
	}
	for (k = 0; k < parts; k++)
		for (i = 0; i < parts; i++)
			for (j = 0; j < parts; j++)
				if (distance[i][k] != XC_NEVER && distance[k][j] != XC_NEVER)
					distance[i][j] = min(distance[i][j], distance[i][k] + distance[k][j]);
	farthest = 0;
	step = XC_NEVER;
	for (i = 0; i < parts; i++)
		for (j = 0; j < parts; j++) {
			if (i != j)
				farthest = max(farthest, distance[i][j]);
			if (i != part && j == part)
				step = min(step, distance[i][j]);
			if (distance[i][j] == XC_NEVER)
				return -ENOTCONN;
		}
	return 0;
}

static void leave(void)
{
	unsigned long flags;
	u32 i;

	local_irq_save(flags);
	if (me->state != XC_OUT) {
		xoff_cable_lock(&memory->lock);
		show();
		me->left[me->generation & 1] = time_travel_now();
		me->state = XC_OUT;
		me->waits_for_all = 0;
		wake_others();
		xoff_cable_unlock(&memory->lock);
		time_travel_at_horizon = NULL;
		time_travel_horizon = -1ULL;
		time_travel_del_event(&delivery);
		if (has_given) {
			is_broken = has_result = true;
			wake_up(&xc_wait);
		}
	}
	for (i = 0; i < cable_count; i++) {
		__skb_queue_purge(&cables[i].frames);
		cables[i].dev = NULL;
	}
	local_irq_restore(flags);
}

static bool all_have_joined(void)
{
	u32 q;

	for (q = 0; q < parts; q++)
		if ((int)(memory->part[q].generation - me->generation) < 0)
			return false;
	return true;
}

static long join(const struct xc_cut *cuts, u32 count)
{
	u64 digest = count;
	unsigned long flags;
	long err = 0;
	u32 i, q;

	if (me->state != XC_OUT)
		return -EBUSY;
	err = measure(cuts, count);
	if (err)
		return err;
	for (i = 0; i < count; i++) {
		struct xc_cable *cable = &cables[i];

		memset(cable, 0, sizeof(*cable));
		__skb_queue_head_init(&cable->frames);
		cable->is_ours = cuts[i].part[0] == part || cuts[i].part[1] == part;
		cable->here = cuts[i].part[0] == part ? 0 : 1;
		cable->there = cuts[i].part[!cable->here];
		cable->delay = cable->least_delay = cuts[i].delay;
		digest = mixed(mixed(mixed(digest, cuts[i].part[0]), cuts[i].part[1]), cuts[i].delay);
	}
	cable_count = count;
	for (q = 0; q < parts; q++)
		sent_first[q] = XC_NEVER;
	has_given = has_result = is_broken = false;

	local_irq_save(flags);
	xoff_cable_lock(&memory->lock);
	me->generation++;
	me->table[me->generation & 1] = digest;
	me->base = time_travel_now();
	me->frames = XC_NEVER;
	me->state = XC_JOINING;
	for (q = 0; q < parts; q++)
		xoff_cable_ring(&memory->part[q]);
	while (!all_have_joined()) {
		u32 seen = READ_ONCE(me->bell);

		xoff_cable_unlock(&memory->lock);
		xoff_cable_sleep(me, seen, patience);
		xoff_cable_lock(&memory->lock);
	}
	for (q = 0; q < parts; q++)
		if (memory->part[q].table[me->generation & 1] != digest)
			err = -EBADMSG;
	if (!err) {
		me->state = XC_RUNS;
		time_travel_horizon = 0;
		time_travel_at_horizon = at_horizon;
	}
	xoff_cable_unlock(&memory->lock);
	local_irq_restore(flags);
	if (err)
		leave();
	return err;
}

static long xc_do_join(unsigned long argument)
{
	struct xc_join asked;
	struct xc_cut *cuts;
	long err;

	if (copy_from_user(&asked, (void __user *)argument, sizeof(asked)))
		return -EFAULT;
	if (!asked.count || asked.count > XC_CABLES)
		return -EINVAL;
	cuts = vmemdup_user(u64_to_user_ptr(asked.cables), asked.count * sizeof(*cuts));
	if (IS_ERR(cuts))
		return PTR_ERR(cuts);
	rtnl_lock();
	err = join(cuts, asked.count);
	rtnl_unlock();
	kvfree(cuts);
	return err;
}

static long xc_do_change(unsigned long argument)
{
	struct xc_change asked;
	struct xc_cable *cable;
	unsigned long flags;
	long err = 0;

	if (copy_from_user(&asked, (void __user *)argument, sizeof(asked)))
		return -EFAULT;
	rtnl_lock();
	cable = asked.cable < cable_count ? &cables[asked.cable] : NULL;
	if (!cable || !cable->dev) {
		err = -EINVAL;
	} else if (asked.delay < cable->least_delay) {
		err = -ERANGE;
	} else {
		local_irq_save(flags);
		if (asked.is_pulled)
			cable->lost_until = max(cable->lost_until, time_travel_now() + cable->delay);
		cable->delay = asked.delay;
		cable->loss = asked.loss;
		if (!cable->random)
			cable->random = asked.seed * 2 + cable->here + 1;
		local_irq_restore(flags);
		if (asked.has_carrier)
			netif_carrier_on(cable->dev);
		else
			netif_carrier_off(cable->dev);
	}
	rtnl_unlock();
	return err;
}

static long xc_do_count(unsigned long argument)
{
	struct xc_ask asked;

	if (copy_from_user(&asked, (void __user *)argument, sizeof(asked)))
		return -EFAULT;
	if (asked.cable >= cable_count)
		return -EINVAL;
	if (copy_to_user(u64_to_user_ptr(asked.count), &cables[asked.cable].count, sizeof(struct xc_count)))
		return -EFAULT;
	return 0;
}

static long xc_do_windows(unsigned long argument)
{
	struct xc_windows __user *asked = (void __user *)argument;
	struct xc_windows found;

	if (copy_from_user(&found, asked, sizeof(found)))
		return -EFAULT;
	if (!worked)
		worked = vzalloc(XC_WINDOWS_NOTED * sizeof(*worked));
	if (!worked)
		return -ENOMEM;
	found.many = windows;
	if (copy_to_user(u64_to_user_ptr(found.worked), worked,
			 min3(found.room, windows, (u32)XC_WINDOWS_NOTED) * sizeof(*worked)) ||
	    copy_to_user(asked, &found, sizeof(found)))
		return -EFAULT;
	windows = 0;
	worked_until = xoff_cable_cpu_ns();
	return 0;
}

static long xc_ioctl(struct file *file, unsigned int command, unsigned long argument)
{
	long result;

	switch (command) {
	case XC_WHO:
		return part | parts << 16;
	case XC_JOIN:
		return xc_do_join(argument);
	case XC_CHANGE:
		return xc_do_change(argument);
	case XC_WINDOWS:
		rtnl_lock();
		result = xc_do_windows(argument);
		rtnl_unlock();
		return result;
	case XC_LEAVE:
		rtnl_lock();
		leave();
		rtnl_unlock();
		return 0;
	case XC_COUNT:
		rtnl_lock();
		result = xc_do_count(argument);
		rtnl_unlock();
		return result;
	default:
		return -ENOTTY;
	}
}

static ssize_t xc_write(struct file *file, const char __user *from, size_t length, loff_t *at)
{
	unsigned long flags;
	ssize_t result = length;

	if (length > XC_BOX)
		return -EMSGSIZE;
	mutex_lock(&xc_mutex);
	if (me->state == XC_OUT)
		result = -ENOTCONN;
	else if (has_given)
		result = -EBUSY;
	else if (copy_from_user(box_of(part, me->given + 1), from, length))
		result = -EFAULT;
	if (result >= 0) {
		local_irq_save(flags);
		xoff_cable_lock(&memory->lock);
		me->given++;
		me->given_at[me->given & 1] = time_travel_now();
		me->given_octets[me->given & 1] = length;
		me->waits_for_all = 1;
		has_given = true;
		has_result = is_broken = false;
		take();
		plan_delivery();
		xoff_cable_unlock(&memory->lock);
		local_irq_restore(flags);
	}
	mutex_unlock(&xc_mutex);
	return result;
}

/* The room has to do for all: there is no second part of a result. */
static ssize_t xc_read(struct file *file, char __user *to, size_t length, loff_t *at)
{
	size_t done = 0;
	ssize_t err = 0;
	u32 q;

	if (!has_given)
		return -ENODATA;
	err = wait_event_interruptible(xc_wait, has_result);
	if (err)
		return err;
	mutex_lock(&xc_mutex);
	for (q = 0; q < parts && !err && !is_broken; q++) {
		u32 octets = memory->part[q].given_octets[me->given & 1];

		if (octets > XC_BOX || length - done < 4 + octets)
			err = -EMSGSIZE;
		else if (copy_to_user(to + done, &octets, 4) ||
			 copy_to_user(to + done + 4, box_of(q, me->given), octets))
			err = -EFAULT;
		done += 4 + octets;
	}
	if (is_broken)
		err = -EPIPE;
	has_given = false;
	mutex_unlock(&xc_mutex);
	return err ?: done;
}

static int xc_release(struct inode *inode, struct file *file)
{
	rtnl_lock();
	leave();
	rtnl_unlock();
	return 0;
}

static const struct file_operations xc_operations = {
	.owner = THIS_MODULE,
	.read = xc_read,
	.write = xc_write,
	.release = xc_release,
	.unlocked_ioctl = xc_ioctl,
	.llseek = noop_llseek,
};

static struct miscdevice xc_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "xoff-parts",
	.fops = &xc_operations,
	.mode = 0600,
};

/* Nothing of this is there in a kernel that has a network to itself. */
static int __init xc_init(void)
{
	int fd = xoff_descriptor("XOFF_CABLES"), number = xoff_descriptor("XOFF_PART"), err;

	if (fd < 0 || number < 0)
		return 0;
	memory = xoff_cable_map(fd, sizeof(*memory), false);
	if (!memory || memory->parts > XC_PARTS || number >= memory->parts) {
		pr_err("xoff-parts: the host has no memory for %d parts\n", memory ? memory->parts : 0);
		return -EINVAL;
	}
	parts = memory->parts;
	part = number;
	patience = memory->patience;
	memory = xoff_cable_map(fd, XC_SIZE(parts), true);
	cables = vzalloc(XC_CABLES * sizeof(*cables));
	if (!memory || !cables) {
		pr_err("xoff-parts: no memory for the cables\n");
		return -ENOMEM;
	}
	me = &memory->part[part];
	err = rtnl_link_register(&xc_link);
	return err ?: misc_register(&xc_device);
}
late_initcall(xc_init);
