// SPDX-License-Identifier: GPL-2.0
/*
 * The RoCE endpoints of hosts: sockets, timers and ports around xoff_roce_user.c.
 *
 * A process opens /dev/xoff-roce in the network namespace of its host, gives it the UDP socket of port 4791, and adds
 * queue pairs whose connections it has made. Their datagrams then go no further than the socket's entrance; all others
 * reach the process as before. Each queue pair has a timer, and as many frames on their way as its share of the port
 * allows. All of it runs in softirqs, so nothing here costs a switch to a process.
 *
 * When the file is closed the endpoint ends: nothing is sent any more, and datagrams are the socket's again.
 */
#include <linux/fs.h>
#include <linux/hrtimer.h>
#include <linux/init.h>
#include <linux/interrupt.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/kref.h>
#include <linux/miscdevice.h>
#include <linux/net.h>
#include <linux/poll.h>
#include <linux/skbuff.h>
#include <linux/slab.h>
#include <linux/time-internal.h>
#include <linux/uaccess.h>
#include <linux/udp.h>
#include <linux/vmalloc.h>
#include <net/dsfield.h>
#include <net/ip.h>
#include <net/ip6_fib.h>
#include <net/ip6_route.h>
#include <net/ipv6.h>
#include <net/route.h>
#include <net/sock.h>
#include <net/udp.h>
#include "xoff_flow.h"
#include "xoff_roce_device.h"

#define XR_PORT 4791
#define XR_CNP 0x81
#define XR_AROUND 32		/* octets around the payload of a flow's packet at the most: BTH, RETH, ICRC; an atomic
				   operation has 44, and no payload */
#define XR_HEADERS 22		/* octets of a frame before the payload of UDP, but for the IP header */

struct xr_block {
	u32 mtu;
	u32 *known, *shift;
};

struct xr_endpoint;

/* A shared receive queue: that of the queue pairs whose NICs have these numbers */
struct xr_shared {
	u32 receives, receive_limit;
	s64 receive_ns;
	struct xr_receives state;
};

struct xr_pair {
	struct kref references;		/* the endpoint's, and one for each frame on its way */
	struct xr_endpoint *endpoint;	/* NULL once it is closed */
	struct list_head has_room, waiting;
	struct hrtimer timer;
	struct time_travel_event sampler;
	s64 sample_at_ns;
	s64 armed_ns;
	struct dst_entry *route;
	u32 route_cookie;
	struct xr_add given;
	u32 on_the_way, most_on_the_way;	/* frames that the port has not sent yet */
	u32 is_blocked, was_over;
	u64 *sent;			/* in the memory that others look at */
	struct xr_wait *waits;
	struct xr_asker asker;
	struct xr_region spare;
	u64 frames_octets;
	struct xf_arrivals arrivals;
	void *room;			/* for packets that come early */
	struct xr_sample *samples;
	u32 samples_count, samples_room;
	union xc_number *frame;		/* of a rate control of one's own */
	struct xr_queue_pair core;
};

struct xr_endpoint {
	struct net *net;
	struct socket *socket;
	struct xr_settings settings;
	struct xr_memory memory;
	u32 is_per_priority, moderation, first, most, may_send;
	struct xr_pair **pairs;
	u32 count;			/* one more than the place of the last */
	struct list_head has_room, waiting;	/* queue pairs, and those whose flows wait for others */
	struct tasklet_struct tasklet;
	struct xf_counters counters;
	wait_queue_head_t wait;
	bool has_news;
	u64 refused[XR_REFUSALS];
	struct xc_program *programs[XR_MOST_PROGRAMS];
	u32 programs_count, shared_count;
	struct xr_shared shared[XR_MOST_SHARED];
};

/* Content and its CRCs are the same for all endpoints of an MTU */
static u8 *xr_content;
static struct xr_block xr_blocks[5];
static DEFINE_MUTEX(xr_lock);

static void xr_free(struct kref *references)
{
	struct xr_pair *pair = container_of(references, struct xr_pair, references);

	dst_release(pair->route);
	kvfree(pair->arrivals.windows);
	kvfree(pair->samples);
	kvfree(pair->room);
	kvfree(pair->frame);
	kfree(pair->waits);
	kvfree(pair);
}

/* A frame has left the port, or was dropped */
static void xr_frame_left(struct sk_buff *skb)
{
	struct xr_pair *pair = skb_shinfo(skb)->destructor_arg;

	pair->on_the_way--;
	if (pair->is_blocked && pair->endpoint && pair->on_the_way < pair->most_on_the_way) {
		pair->is_blocked = 0;
		list_add_tail(&pair->has_room, &pair->endpoint->has_room);
		tasklet_schedule(&pair->endpoint->tasklet);
	}
	kref_put(&pair->references, xr_free);
}

static struct dst_entry *xr_route_ipv4(const struct xr_pair *pair)
{
	struct flowi4 flow = {
		.flowi4_proto = IPPROTO_UDP,
		.fl4_sport = htons(pair->given.port),
		.fl4_dport = htons(XR_PORT),
	};
	struct rtable *found;

	memcpy(&flow.saddr, pair->given.address, sizeof(flow.saddr));
	memcpy(&flow.daddr, pair->given.far_address, sizeof(flow.daddr));
	found = ip_route_output_key(pair->endpoint->net, &flow);
	return IS_ERR(found) ? NULL : &found->dst;
}

static struct dst_entry *xr_route_ipv6(struct xr_pair *pair)
{
	struct flowi6 flow = {
		.flowi6_proto = IPPROTO_UDP,
		.flowlabel = htonl(pair->given.flow_label),
		.fl6_sport = htons(pair->given.port),
		.fl6_dport = htons(XR_PORT),
	};
	struct dst_entry *found;

	memcpy(&flow.saddr, pair->given.address, sizeof(flow.saddr));
	memcpy(&flow.daddr, pair->given.far_address, sizeof(flow.daddr));
	found = ip6_route_output(pair->endpoint->net, NULL, &flow);
	if (found->error) {
		dst_release(found);
		return NULL;
	}
	pair->route_cookie = rt6_get_cookie(dst_rt6_info(found));
	return found;
}

static struct dst_entry *xr_route(struct xr_pair *pair)
{
	if (pair->route && dst_check(pair->route, pair->route_cookie))
		return pair->route;
	dst_release(pair->route);
	pair->route = pair->given.is_ipv6 ? xr_route_ipv6(pair) : xr_route_ipv4(pair);
	return pair->route;
}

static u32 xr_ip_header(const struct xr_pair *pair)
{
	return pair->given.is_ipv6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr);
}

static struct sk_buff *xr_alloc(const struct xr_pair *pair, const struct dst_entry *route, u32 length)
{
	u32 before = LL_RESERVED_SPACE(route->dev) + xr_ip_header(pair) + sizeof(struct udphdr);
	struct sk_buff *skb = alloc_skb(before + length, GFP_ATOMIC);

	if (skb)
		skb_reserve(skb, before);
	return skb;
}

/* The frames that a socket with this buffer would give the port: it takes one more as long as there is any room */
static u32 xr_frames_of(const struct xr_pair *pair, u32 mtu)
{
	struct sk_buff *full = xr_alloc(pair, pair->route, 16 + mtu);
	u32 found = full ? DIV_ROUND_UP(pair->given.buffer, full->truesize) : 1;

	kfree_skb(full);
	return found;
}

static void xr_push_ipv4(const struct xr_pair *pair, struct sk_buff *skb, const struct dst_entry *route, u8 ds_field)
{
	struct iphdr *ip = skb_push(skb, sizeof(*ip));

	skb_reset_network_header(skb);
	ip->version = 4;
	ip->ihl = 5;
	ip->tos = ds_field;
	ip->id = 0;
	ip->frag_off = htons(IP_DF);
	ip->ttl = ip4_dst_hoplimit(route);
	ip->protocol = IPPROTO_UDP;
	memcpy(&ip->saddr, pair->given.address, sizeof(ip->saddr));
	memcpy(&ip->daddr, pair->given.far_address, sizeof(ip->daddr));
	skb->protocol = htons(ETH_P_IP);
}

static void xr_push_ipv6(const struct xr_pair *pair, struct sk_buff *skb, struct dst_entry *route, u8 ds_field)
{
	struct ipv6hdr *ip;
	u32 length = skb->len;

	ip = skb_push(skb, sizeof(*ip));
	skb_reset_network_header(skb);
	ip6_flow_hdr(ip, ds_field, htonl(pair->given.flow_label));
	ip->payload_len = htons(length);
	ip->nexthdr = IPPROTO_UDP;
	ip->hop_limit = ip6_dst_hoplimit(route);
	memcpy(&ip->saddr, pair->given.address, sizeof(ip->saddr));
	memcpy(&ip->daddr, pair->given.far_address, sizeof(ip->daddr));
	skb->protocol = htons(ETH_P_IPV6);
}

/* Without a route, or memory, a packet is lost */
static void xr_send(struct xr_pair *pair, const struct xr_packet *packet, bool is_data)
{
	u32 length = packet->head_length + packet->length + packet->padding + 4;
	struct dst_entry *route = xr_route(pair);
	struct sk_buff *skb;
	u8 ds_field = is_data ? pair->given.ds_field : pair->given.cnp_ds_field;
	struct udphdr *udp;
	__le32 icrc = cpu_to_le32(packet->icrc);

	if (!route)
		return;
	skb = xr_alloc(pair, route, length);
	if (!skb)
		return;
	skb_put_data(skb, packet->head, packet->head_length);
	if (packet->length)
		skb_put_data(skb, packet->payload, packet->length);
	skb_put_zero(skb, packet->padding);
	skb_put_data(skb, &icrc, sizeof(icrc));
	udp = skb_push(skb, sizeof(*udp));
	skb_reset_transport_header(skb);
	udp->source = htons(pair->given.port);
	udp->dest = htons(XR_PORT);
	udp->len = htons(sizeof(*udp) + length);
	udp->check = 0;
	if (pair->given.is_ipv6)
		xr_push_ipv6(pair, skb, route, ds_field);
	else
		xr_push_ipv4(pair, skb, route, ds_field);
	skb->priority = is_data ? pair->given.priority : pair->given.cnp_priority;
	skb->ip_summed = CHECKSUM_NONE;
	skb_dst_set(skb, dst_clone(route));
	if (is_data) {
		kref_get(&pair->references);
		pair->on_the_way++;
		skb_shinfo(skb)->destructor_arg = pair;
		skb->destructor = xr_frame_left;
	}
	if (pair->given.is_ipv6)
		ip6_local_out(pair->endpoint->net, NULL, skb);
	else
		ip_local_out(pair->endpoint->net, NULL, skb);
}

static void xr_emit_data(void *pair, const struct xr_packet *packet)
{
	xr_send(pair, packet, true);
}

static void xr_emit_notification(void *pair, const struct xr_packet *packet)
{
	xr_send(pair, packet, false);
}

/* Have all flows that this one waits for delivered what its next block needs? */
static int xr_may_post(void *context, s64 blocks)
{
	struct xr_pair *pair = context;
	u32 i;

	for (i = 0; i < pair->given.waits_count; i++) {
		struct xr_wait *wait = &pair->waits[i];
		s64 needed = blocks * (s64)wait->message;

		if (wait->size && needed > (s64)wait->size)
			needed = wait->size;
		if ((s64)pair->endpoint->memory.regions[wait->region].received < needed)
			return 0;
	}
	return 1;
}

static bool xr_is_over(const struct xr_pair *pair)
{
	if (pair->given.roles & XR_IS_ASKER)
		return pair->asker.is_over;
	return pair->core.has_failed || pair->core.counters.received;
}

/* Show how far the flow is, and wake its process at the end */
static void xr_show(struct xr_pair *pair)
{
	if (pair->sent)
		WRITE_ONCE(*pair->sent, pair->core.counters.fresh);
	if (!pair->was_over && xr_is_over(pair)) {
		pair->was_over = 1;
		pair->endpoint->has_news = true;
		wake_up_interruptible(&pair->endpoint->wait);
	}
}

/* A timer that is set already and fires too early costs less than to set it with each acknowledgement */
static void xr_arm(struct xr_pair *pair, s64 due_ns)
{
	if (due_ns != XR_NEVER && (!hrtimer_is_queued(&pair->timer) || due_ns < pair->armed_ns)) {
		pair->armed_ns = due_ns;
		hrtimer_start(&pair->timer, ns_to_ktime(due_ns), HRTIMER_MODE_ABS_SOFT);
	}
}

/* Send the CNPs that are due, also while the port is full of data */
static void xr_notify(struct xr_pair *pair, s64 now_ns)
{
	while (xr_notification(&pair->core, now_ns, xr_emit_notification, pair))
		;
}

/* Post and send what is due, and set the timer */
static void xr_run(struct xr_pair *pair, s64 now_ns)
{
	struct xr_endpoint *endpoint = pair->endpoint;
	bool is_asker = pair->given.roles & XR_IS_ASKER;
	s64 due_ns;

	for (;;) {
		if (is_asker)
			xr_ask(&pair->asker, &pair->core, now_ns, endpoint->may_send, xr_may_post, pair);
		xr_notify(pair, now_ns);
		due_ns = xr_deadline(&pair->core);
		if (due_ns > now_ns)
			break;
		if (pair->on_the_way >= pair->most_on_the_way) {
			pair->is_blocked = 1;
			xr_show(pair);
			xr_arm(pair, xr_notification_ns(&pair->core));
			return;
		}
		if (!xr_transmit(&pair->core, now_ns, 1, xr_emit_data, pair) &&
		    xr_deadline(&pair->core) <= now_ns) {
			due_ns = now_ns + 1;	/* it has failed just now, or cannot be */
			break;
		}
	}
	xr_show(pair);
	if (is_asker && !pair->asker.is_over && pair->asker.begin_ns > now_ns)
		due_ns = min(due_ns, pair->asker.begin_ns);
	xr_arm(pair, due_ns);
}

static enum hrtimer_restart xr_is_due(struct hrtimer *timer)
{
	struct xr_pair *pair = container_of(timer, struct xr_pair, timer);

	if (pair->endpoint && !pair->is_blocked && list_empty(&pair->has_room)) {
		xr_run(pair, ktime_get_ns());
	} else if (pair->endpoint) {
		xr_notify(pair, ktime_get_ns());
		xr_arm(pair, xr_notification_ns(&pair->core));
	}
	return HRTIMER_NORESTART;
}

static void xr_have_room(struct tasklet_struct *tasklet)
{
	struct xr_endpoint *endpoint = from_tasklet(endpoint, tasklet, tasklet);
	s64 now_ns = ktime_get_ns();

	while (!list_empty(&endpoint->has_room)) {
		struct xr_pair *pair = list_first_entry(&endpoint->has_room, struct xr_pair, has_room);

		list_del_init(&pair->has_room);
		xr_run(pair, now_ns);
	}
}

static void xr_sample_at(struct xr_pair *pair, s64 at_ns)
{
	pair->sample_at_ns = at_ns;
	time_travel_add_event_rel(&pair->sampler, max(0, at_ns - (s64)ktime_get_ns()));
}

/* No timer: its interrupt would also be the end of sleeps that may end early, see xoff_observe_kern.c */
static void xr_take_sample(struct time_travel_event *event)
{
	struct xr_pair *pair = container_of(event, struct xr_pair, sampler);
	struct xr_sample *samples;

	samples = xf_larger(pair->samples, pair->samples_count, &pair->samples_room, 256, sizeof(*samples));
	if (!samples)
		return;
	pair->samples = samples;
	pair->samples[pair->samples_count].at_ns = pair->sample_at_ns;
	pair->samples[pair->samples_count].sent_octets = pair->core.counters.sent_octets;
	xr_rate_state(&pair->core, pair->sample_at_ns, pair->samples[pair->samples_count].state);
	pair->samples_count++;
	xr_sample_at(pair, pair->sample_at_ns + pair->given.sample_ns);
}

static struct xr_pair *xr_find(const struct xr_endpoint *endpoint, u32 number)
{
	u32 place = number - endpoint->first;

	return place < endpoint->count ? endpoint->pairs[place] : NULL;
}

/* Those that wait for others are asked again when data have come */
static void xr_wake_waiting(struct xr_endpoint *endpoint, s64 now_ns)
{
	struct xr_pair *pair;

	list_for_each_entry(pair, &endpoint->waiting, waiting)
		if (!pair->asker.is_over && !pair->is_blocked && list_empty(&pair->has_room))
			xr_run(pair, now_ns);
}

/* A datagram of port 4791: 0, and it is ours, or 1, and it is the socket's */
static int xr_on_datagram(struct sock *sk, struct sk_buff *skb)
{
	struct xr_endpoint *endpoint = rcu_dereference_sk_user_data(sk);
	u32 ds_field, refused, i;
	struct xr_region *sink;
	struct xr_pair *pair;
	const u8 *datagram;
	u64 before, kept;
	bool has_come;
	s64 now_ns;

	if (!endpoint || skb_linearize(skb) || skb->len < sizeof(struct udphdr) + 16)
		return 1;
	datagram = skb->data + sizeof(struct udphdr);
	/* Connection management, which is the process's, goes to queue pair 1, which is none of these */
	pair = xr_find(endpoint, datagram[5] << 16 | datagram[6] << 8 | datagram[7]);
	if (!pair)
		return 1;
	if (pair->given.is_ipv6 != (skb->protocol == htons(ETH_P_IPV6)))
		return 1;
	ds_field = pair->given.is_ipv6 ? ipv6_get_dsfield(ipv6_hdr(skb)) : ip_hdr(skb)->tos;
	now_ns = ktime_get_ns();
	sink = &endpoint->memory.regions[pair->given.region];
	before = sink->received;
	kept = pair->core.counters.kept;	/* packets that are kept count when they come, and not when it is their turn */
	refused = xr_receive(&pair->core, datagram, skb->len - sizeof(struct udphdr), ds_field, now_ns);
	endpoint->refused[refused]++;
	if (pair->given.service)	/* what is dropped then has come, too */
		has_come = !refused && datagram[0] != XR_CNP;
	else
		has_come = sink->received > before || pair->core.counters.kept > kept;
	if (pair->given.roles & XR_IS_TARGET && has_come) {
		if (xf_arrived(&pair->arrivals, ds_field & 3, now_ns))
			pair->frames_octets += XR_HEADERS + xr_ip_header(pair) + skb->len - sizeof(struct udphdr);
		xr_wake_waiting(endpoint, now_ns);
	}
	if (!refused && datagram[0] == XR_CNP && endpoint->is_per_priority)
		for (i = 0; i < endpoint->count; i++) {
			struct xr_pair *other = endpoint->pairs[i];

			if (other && other != pair && other->given.priority == pair->given.priority)
				xr_on_cnp(&other->core, now_ns);
		}
	consume_skb(skb);
	if (!pair->is_blocked && list_empty(&pair->has_room)) {
		xr_run(pair, now_ns);
	} else {
		xr_notify(pair, now_ns);
		xr_arm(pair, xr_notification_ns(&pair->core));
	}
	return 0;
}

/* Make what all endpoints have in common: the content, and its CRCs for an MTU */
static long xr_prepare(struct xr_memory *memory, u32 mtu, u64 content)
{
	struct xr_block *block = &xr_blocks[ilog2(mtu) - 8];

	if (!xr_content) {
		u8 *made = vmalloc(2 * XR_BLOCK);

		if (!made)
			return -ENOMEM;
		if (copy_from_user(made, u64_to_user_ptr(content), XR_BLOCK)) {
			vfree(made);
			return -EFAULT;
		}
		memcpy(made + XR_BLOCK, made, XR_BLOCK);
		xr_content = made;
		xr_tables();
	}
	if (!block->known) {
		u32 *known = vmalloc(XR_BLOCK / 8 * sizeof(*known) + 1024 * sizeof(*known));

		if (!known)
			return -ENOMEM;
		block->known = known;
		block->shift = known + XR_BLOCK / 8;
		xr_prepare_memory(xr_content, mtu, block->known, block->shift);
	}
	memory->block = xr_content;
	memory->known = block->known;
	memory->shift = block->shift;
	memory->first_key = XR_FIRST_KEY;
	return 0;
}

static long xr_attach(struct xr_endpoint *endpoint, const struct xr_attach __user *from)
{
	struct xr_attach given;
	struct socket *socket;
	u32 mtu;
	long err = 0;

	if (copy_from_user(&given, from, sizeof(given)))
		return -EFAULT;
	mtu = given.settings.mtu;
	if (endpoint->socket)
		return -EBUSY;
	if (mtu < 256 || mtu > 4096 || mtu & (mtu - 1) || given.queue_pairs > XR_MOST_QUEUE_PAIRS ||
	    given.settings.retransmit_ns <= 0 || !given.settings.ack_every || !given.settings.window)
		return -EINVAL;
	err = xr_prepare(&endpoint->memory, mtu, given.content);
	if (err)
		return err;
	endpoint->memory.regions = kvcalloc(given.queue_pairs, sizeof(struct xr_region), GFP_KERNEL);
	endpoint->pairs = kvcalloc(given.queue_pairs, sizeof(struct xr_pair *), GFP_KERNEL);
	if (!endpoint->memory.regions || !endpoint->pairs)
		return -ENOMEM;
	err = xf_map(&endpoint->counters, given.counters, given.counters_size);
	if (err)
		return err;
	endpoint->most = given.queue_pairs;
	endpoint->first = given.first;
	endpoint->memory.count = given.queue_pairs;
	endpoint->settings = given.settings;
	endpoint->is_per_priority = given.is_per_priority;
	endpoint->moderation = given.moderation;
	socket = xf_socket(given.socket);
	if (IS_ERR(socket))
		return PTR_ERR(socket);
	endpoint->socket = socket;
	endpoint->net = sock_net(socket->sk);
	endpoint->may_send = 1;
	xf_take(socket, endpoint, xr_on_datagram);
	return 0;
}

static bool xr_nic_fits(const struct xr_nic *nic)
{
	return nic->recovery <= XR_SELECTIVE_REPEAT && nic->reads && nic->reads <= XR_MOST_READS &&
	       nic->reorder_packets && nic->reorder_packets <= XR_MOST_KEPT && nic->rnr_code < 32 &&
	       nic->bdp_packets > 1 && nic->bdp_packets <= XR_MOST_KEPT && nic->cnp_ns >= 0 && nic->ack_ns >= 0 &&
	       nic->doorbell_ns >= 0 && nic->jitter_ns >= 0 && nic->reorder_ns >= 0 && nic->receive_ns >= 0 &&
	       nic->rnr_unit_ns > 0 && nic->low_ns > 0 && nic->high_ns > 0 && nic->receive_limit <= nic->receives &&
	       (nic->receives || !nic->shares_receives);
}

/* Does the service have that operation? */
static bool xr_service_fits(const struct xr_endpoint *endpoint, const struct xr_add *given)
{
	if (given->service == XR_RC)
		return true;
	if (given->waits_count || given->operation > XR_SEND)
		return false;
	return given->service == XR_UC || (given->service == XR_UD && given->operation == XR_SEND &&
					   given->message <= endpoint->settings.mtu);
}

/* A rate control of the kernel's, or one whose program has an entry for each event that it wants */
static bool xr_rate_fits(const struct xr_endpoint *endpoint, const struct xr_add *given)
{
	const struct xr_rate *rate = &given->rate;
	u32 event;

	if (!given->program)
		return rate->kind <= XR_TIMELY && !rate->counts_acknowledgements && !rate->needs_telemetry &&
		       !rate->window;
	if (rate->kind != XR_OWN || given->program > endpoint->programs_count || rate->fault || rate->window < 0)
		return false;
	for (event = 0; event <= XR_DEADLINE; event++)
		if (rate->wants & BIT(event) &&
		    endpoint->programs[given->program - 1]->entries[event] == XC_NO_ENTRY)
			return false;
	return true;
}

static bool xr_fits(const struct xr_endpoint *endpoint, const struct xr_add *given)
{
	u32 place = given->number - endpoint->first;

	return xf_has(&endpoint->counters, given->sent_at) && xf_has(&endpoint->counters, given->received_at) &&
	       place < endpoint->most && !endpoint->pairs[place] && given->region < endpoint->most &&
	       given->message && given->line_bps && given->operation <= XR_FETCH_ADD &&
	       (given->operation < XR_COMPARE_SWAP || given->message == XR_WORD) && xr_rate_fits(endpoint, given) &&
	       given->sample_ns >= 0 && given->is_ipv6 <= 1 && given->flow_label < 1 << 20 &&
	       xr_nic_fits(&given->nic) && xr_service_fits(endpoint, given) && given->waits_count <= endpoint->most && given->buffer &&
	       (given->rate.kind != XR_DCQCN || (given->rate.alpha_ns > 0 && given->rate.increase_ns > 0 &&
						 given->rate.decrease_ns >= 0));
}

/* Queue pairs whose marked packets share an interval of CNPs */
static void xr_share_pace(const struct xr_endpoint *endpoint, struct xr_pair *pair)
{
	u32 i;

	for (i = 0; i < endpoint->count && endpoint->moderation != XR_BY_FLOW; i++) {
		struct xr_pair *other = endpoint->pairs[i];

		if (other && (endpoint->moderation == XR_BY_NIC ||
			      !memcmp(other->given.far_address, pair->given.far_address, sizeof(pair->given.far_address)))) {
			pair->core.pace = other->core.pace;
			return;
		}
	}
}

/* The shared receive queue of a NIC's queue pairs, or NULL if there are too many */
static struct xr_receives *xr_shared_receives(struct xr_endpoint *endpoint, const struct xr_nic *nic)
{
	struct xr_shared *shared = endpoint->shared;
	u32 i;

	for (i = 0; i < endpoint->shared_count; i++, shared++)
		if (shared->receives == nic->receives && shared->receive_ns == nic->receive_ns &&
		    shared->receive_limit == nic->receive_limit)
			return &shared->state;
	if (i == XR_MOST_SHARED)
		return NULL;
	endpoint->shared_count++;
	*shared = (struct xr_shared) {
		.receives = nic->receives, .receive_limit = nic->receive_limit, .receive_ns = nic->receive_ns,
	};
	return &shared->state;
}

static long xr_add(struct xr_endpoint *endpoint, const struct xr_add __user *from)
{
	struct xr_region *region;
	struct xr_pair *pair;
	u32 place, i, is_atomic;
	long err = -EFAULT;

	if (!endpoint->socket)
		return -ENOTCONN;
	pair = kvzalloc(sizeof(*pair), GFP_KERNEL);
	if (!pair)
		return -ENOMEM;
	kref_init(&pair->references);
	INIT_LIST_HEAD(&pair->has_room);
	INIT_LIST_HEAD(&pair->waiting);
	if (copy_from_user(&pair->given, from, sizeof(pair->given)))
		goto refused;
	err = -EINVAL;
	if (!xr_fits(endpoint, &pair->given))
		goto refused;
	if (pair->given.waits_count) {
		pair->waits = memdup_array_user(u64_to_user_ptr(pair->given.waits), pair->given.waits_count,
						sizeof(*pair->waits));
		if (IS_ERR(pair->waits)) {
			err = PTR_ERR(pair->waits);
			pair->waits = NULL;
			goto refused;
		}
		for (i = 0; i < pair->given.waits_count; i++)
			if (pair->waits[i].region >= endpoint->most)
				goto refused;
	}
	pair->room = kvzalloc(xr_room(&pair->given.nic, &pair->given.rate, &endpoint->settings), GFP_KERNEL);
	if (!pair->room) {
		err = -ENOMEM;
		goto refused;
	}
	if (pair->given.program) {
		const struct xc_program *program = endpoint->programs[pair->given.program - 1];

		pair->core.program = program;
		pair->core.tell = xc_tell;
		pair->frame = kvmalloc_array(program->cells, sizeof(*pair->frame), GFP_KERNEL);
		pair->core.frame = pair->frame;
		err = -ENOMEM;
		if (!pair->frame)
			goto refused;
		err = -EFAULT;
		if (copy_from_user(pair->frame, u64_to_user_ptr(pair->given.control_frame),
				   program->cells * sizeof(*pair->frame)))
			goto refused;
	}
	if (pair->given.nic.shares_receives) {
		pair->core.responder.receives = xr_shared_receives(endpoint, &pair->given.nic);
		err = -ENOSPC;
		if (!pair->core.responder.receives)
			goto refused;
	}
	pair->endpoint = endpoint;
	pair->sent = xf_counter(&endpoint->counters, pair->given.sent_at);
	pair->arrivals.shown = xf_counter(&endpoint->counters, pair->given.received_at);
	err = -ENETUNREACH;
	if (!xr_route(pair))
		goto refused;
	err = -EMSGSIZE;
	if (dst_mtu(pair->route) < xr_ip_header(pair) + sizeof(struct udphdr) + XR_AROUND + endpoint->settings.mtu)
		goto refused;
	pair->most_on_the_way = xr_frames_of(pair, endpoint->settings.mtu);
	region = &endpoint->memory.regions[pair->given.region];
	is_atomic = pair->given.operation >= XR_COMPARE_SWAP;
	region->kind = pair->given.roles & XR_IS_TARGET ? is_atomic ? XR_WORDS : XR_SINK : XR_CONTENT;
	if (region->kind == XR_SINK && pair->given.service) {
		region->kind = XR_SCATTERED;
		pair->core.responder.message = pair->given.message;
	}
	region->has_content = region->as_expected = !is_atomic;
	region->size = is_atomic ? XR_WORD : 1ULL << 62;
	region->words = &region->next;	/* one word, where others have the place that octets come to */
	region->start = pair->given.content % XR_BLOCK;
	pair->spare.kind = XR_SINK;
	pair->spare.size = 1ULL << 62;
	pair->core.number = pair->given.number;
	pair->core.far_number = pair->given.far_number;
	memcpy(pair->core.address, pair->given.address, sizeof(pair->given.address));
	memcpy(pair->core.far_address, pair->given.far_address, sizeof(pair->given.far_address));
	pair->core.is_ipv6 = pair->given.is_ipv6;
	pair->core.service = pair->given.service;
	pair->core.q_key = pair->given.q_key;
	pair->core.port = pair->given.port;
	pair->core.far_port = pair->given.far_port;
	pair->core.settings = &endpoint->settings;
	pair->core.memory = &endpoint->memory;
	pair->core.rate = pair->given.rate;
	pair->core.nic = pair->given.nic;
	pair->core.responder.receive_into = pair->given.roles & XR_IS_TARGET ? region : &pair->spare;
	xr_start(&pair->core, pair->given.first, pair->given.far_first, pair->given.line_bps, pair->room);
	pair->asker = (struct xr_asker) {
		.operation = pair->given.operation, .key = pair->given.far_key,
		.local = is_atomic ? &pair->spare : region,
		.message = pair->given.message, .left = pair->given.left, .messages = pair->given.messages,
		.has_immediate = pair->given.has_immediate, .immediate = pair->given.immediate,
		.begin_ns = pair->given.begin_ns, .end_ns = pair->given.end_ns, .lag = pair->given.lag,
	};
	xr_share_pace(endpoint, pair);
	hrtimer_setup(&pair->timer, xr_is_due, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
	pair->sampler.fn = xr_take_sample;
	pair->sampler.observes = true;
	place = pair->given.number - endpoint->first;
	local_bh_disable();
	endpoint->pairs[place] = pair;
	endpoint->count = max(endpoint->count, place + 1);
	if (pair->given.waits_count)
		list_add_tail(&pair->waiting, &endpoint->waiting);
	if (pair->given.sample_ns)
		xr_sample_at(pair, pair->given.begin_ns);
	xr_run(pair, ktime_get_ns());
	local_bh_enable();
	return 0;
refused:
	pair->endpoint = NULL;
	kref_put(&pair->references, xr_free);
	return err;
}

/* Take the code of a rate control, if it can do no harm; its number */
static long xr_program(struct xr_endpoint *endpoint, const struct xr_program __user *from)
{
	struct xr_program given;
	struct xc_program *made;

	if (copy_from_user(&given, from, sizeof(given)))
		return -EFAULT;
	if (!given.count || given.count > XC_MOST_CODE)
		return -EINVAL;
	if (endpoint->programs_count == XR_MOST_PROGRAMS)
		return -ENOSPC;
	made = kvmalloc(sizeof(*made) + given.count * sizeof(struct xc_op), GFP_KERNEL);
	if (!made)
		return -ENOMEM;
	*made = (struct xc_program) {
		.count = given.count, .cells = given.cells, .stamps = given.stamps, .code = (struct xc_op *)(made + 1),
	};
	memcpy(made->entries, given.entries, sizeof(made->entries));
	if (copy_from_user(made + 1, u64_to_user_ptr(given.code), given.count * sizeof(struct xc_op))) {
		kvfree(made);
		return -EFAULT;
	}
	if (!xc_fits(made)) {
		kvfree(made);
		return -EINVAL;
	}
	endpoint->programs[endpoint->programs_count] = made;
	return endpoint->programs_count++;
}

/* No flow posts any more */
static long xr_stop(struct xr_endpoint *endpoint)
{
	u32 i;

	local_bh_disable();
	endpoint->may_send = 0;
	for (i = 0; i < endpoint->count; i++)
		if (endpoint->pairs[i] && !endpoint->pairs[i]->is_blocked && list_empty(&endpoint->pairs[i]->has_room))
			xr_run(endpoint->pairs[i], ktime_get_ns());
	local_bh_enable();
	return 0;
}

static long xr_progress(struct xr_endpoint *endpoint, const struct xf_ask *asked)
{
	struct xr_progress __user *to = u64_to_user_ptr(asked->room);
	u32 i;

	WRITE_ONCE(endpoint->has_news, false);
	for (i = 0; i < endpoint->count && (i + 1) * sizeof(*to) <= asked->size; i++) {
		const struct xr_pair *pair = endpoint->pairs[i];
		struct xr_progress seen = { };

		if (pair)
			seen = (struct xr_progress) { xr_is_over(pair), pair->core.has_failed };
		if (copy_to_user(to + i, &seen, sizeof(seen)))
			return -EFAULT;
	}
	return i;
}

static long xr_make_report(const struct xr_endpoint *endpoint, const struct xr_pair *pair, struct xr_report *made)
{
	const struct xr_queue_pair *core = &pair->core;
	const struct xr_region *region = &endpoint->memory.regions[pair->given.region];
	bool counts = region->kind == XR_WORDS;

	*made = (struct xr_report) {
		.counters = core->counters, .failure = core->failure, .received = region->received,
		.as_expected = counts ? *region->words == core->counters.messages : region->as_expected,
		.frame_octets = pair->frames_octets, .packets = pair->arrivals.packets,
		.first_ns = pair->arrivals.first_ns, .last_ns = pair->arrivals.last_ns,
		.windows = pair->arrivals.windows_count, .samples = pair->samples_count,
	};
	memcpy(made->ecn, pair->arrivals.ecn, sizeof(made->ecn));
	return 0;
}

static long xr_ioctl(struct file *file, unsigned int command, unsigned long argument)
{
	struct xr_endpoint *endpoint = file->private_data;
	struct xf_ask asked;
	struct xr_report made;
	struct xr_pair *pair;

	if (command == XR_ATTACH) {
		long err;

		mutex_lock(&xr_lock);
		err = xr_attach(endpoint, (void __user *)argument);
		mutex_unlock(&xr_lock);
		return err;
	}
	if (command == XR_PROGRAM) {
		long err;

		mutex_lock(&xr_lock);
		err = xr_program(endpoint, (void __user *)argument);
		mutex_unlock(&xr_lock);
		return err;
	}
	if (command == XR_ADD)
		return xr_add(endpoint, (void __user *)argument);
	if (command == XR_STOP)
		return xr_stop(endpoint);
	if (copy_from_user(&asked, (void __user *)argument, sizeof(asked)))
		return -EFAULT;
	if (command == XR_PROGRESS)
		return xr_progress(endpoint, &asked);
	if (command == XR_REFUSED)
		return xf_give(&asked, endpoint->refused, sizeof(endpoint->refused));
	pair = xr_find(endpoint, asked.number);
	if (!pair)
		return -ENOENT;
	switch (command) {
	case XR_REPORT:
		xr_make_report(endpoint, pair, &made);
		return xf_give(&asked, &made, sizeof(made));
	case XR_WINDOWS:
		return xf_give(&asked, pair->arrivals.windows,
			       pair->arrivals.windows_count * sizeof(*pair->arrivals.windows));
	case XR_SAMPLES:
		return xf_give(&asked, pair->samples, pair->samples_count * sizeof(*pair->samples));
	}
	return -ENOTTY;
}

static __poll_t xr_poll(struct file *file, struct poll_table_struct *table)
{
	struct xr_endpoint *endpoint = file->private_data;

	poll_wait(file, &endpoint->wait, table);
	return READ_ONCE(endpoint->has_news) ? EPOLLIN : 0;
}

static int xr_open(struct inode *inode, struct file *file)
{
	struct xr_endpoint *endpoint = kzalloc(sizeof(*endpoint), GFP_KERNEL);

	if (!endpoint)
		return -ENOMEM;
	INIT_LIST_HEAD(&endpoint->has_room);
	INIT_LIST_HEAD(&endpoint->waiting);
	init_waitqueue_head(&endpoint->wait);
	tasklet_setup(&endpoint->tasklet, xr_have_room);
	file->private_data = endpoint;
	return 0;
}

static int xr_release(struct inode *inode, struct file *file)
{
	struct xr_endpoint *endpoint = file->private_data;
	u32 i;

	if (endpoint->socket)
		xf_leave(endpoint->socket);
	for (i = 0; i < endpoint->count; i++) {
		struct xr_pair *pair = endpoint->pairs[i];

		if (!pair)
			continue;
		local_bh_disable();
		list_del_init(&pair->has_room);
		list_del_init(&pair->waiting);
		pair->endpoint = NULL;	/* frames that are on their way find nobody to wake */
		local_bh_enable();
		hrtimer_cancel(&pair->timer);
		time_travel_del_event(&pair->sampler);
		kref_put(&pair->references, xr_free);
	}
	tasklet_kill(&endpoint->tasklet);
	xf_unmap(&endpoint->counters);
	if (endpoint->socket)
		sockfd_put(endpoint->socket);
	for (i = 0; i < endpoint->programs_count; i++)
		kvfree(endpoint->programs[i]);
	kvfree(endpoint->pairs);
	kvfree(endpoint->memory.regions);
	kfree(endpoint);
	return 0;
}

static const struct file_operations xr_operations = {
	.owner = THIS_MODULE,
	.open = xr_open,
	.release = xr_release,
	.poll = xr_poll,
	.unlocked_ioctl = xr_ioctl,
	.llseek = noop_llseek,
};

static struct miscdevice xr_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "xoff-roce",
	.fops = &xr_operations,
	.mode = 0600,
};

static int __init xr_init(void)
{
	return misc_register(&xr_device);
}
device_initcall(xr_init);
