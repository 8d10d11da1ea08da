// SPDX-License-Identifier: GPL-2.0
/*
 * The UDP flows of hosts: numbered datagrams, sent at their times and counted where they arrive.
 *
 * A process opens /dev/xoff-udp, and gives it connected sockets to send by and bound ones to receive from. What leaves
 * is what the socket makes of a datagram, in each octet and in what it holds. A sender has a timer, and goes on when its
 * socket would wake a process that waits for room; datagrams that come go no further than the socket's entrance. All of
 * it runs in softirqs, so nothing here costs a switch to a process.
 *
 * When the file is closed the flows end: nothing is sent any more, and the datagrams are the sockets' again.
 *
 * Stated in: testbed/net/traffic/udp.py.
 * Compared by: tests/lab/roce/test_udp_in_kernel.py.
 */
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/hrtimer.h>
#include <linux/init.h>
#include <linux/interrupt.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/math64.h>
#include <linux/miscdevice.h>
#include <linux/net.h>
#include <linux/poll.h>
#include <linux/rbtree.h>
#include <linux/slab.h>
#include <linux/timer.h>
#include <linux/uaccess.h>
#include <linux/udp.h>
#include <linux/uio.h>
#include <linux/unaligned.h>
#include <net/dsfield.h>
#include <net/sock.h>
#include "xoff_flow.h"
#include "xoff_udp_device.h"

#define XU_LOOK_MS 50		/* a sender that is blocked so long looks for room */
#define XU_CALL_NS 1000		/* what a process takes at the least to give its socket some datagrams more */

struct xu_endpoint;

/* What a sender does next */
enum xu_phase {
	XU_CHOOSE,		/* find out how many datagrams are next, and when */
	XU_TURN,		/* wait until the line has room for them */
	XU_GIVE			/* give them to the socket */
};

struct xu_sender {
	struct xu_endpoint *endpoint;
	struct socket *socket;
	struct xu_send given;
	struct list_head has_room;
	struct hrtimer timer;
	struct timer_list look;		/* counts in ticks, as the timeout of a socket does */
	void (*write_space)(struct sock *sk);
	u8 *payload;
	u64 *sent, *line;	/* in the memory that others look at */
	enum xu_phase phase;
	u64 number;		/* of the next datagram to be chosen */
	u32 many, done;		/* datagrams that are chosen, and those of them that were sent */
	s64 wait_ns, turn_ns, stamp_ns;
	u32 is_blocked, has_looked, is_over;
	int error;
};

/* Numbers that have not come, though higher ones have: from `first` on, before `end` */
struct xu_gap {
	struct rb_node node;
	u64 first, end;
	u64 since;		/* the datagrams that had come, without duplicates, when a higher number came */
};

struct xu_receiver {
	struct socket *socket;
	struct xf_arrivals arrivals;
	struct rb_root gaps;
	u64 next, doubled, out_of_order, extent;
	s64 worst_delay_ns;
	int error;
};

struct xu_endpoint {
	struct xf_counters counters;
	struct xu_sender *senders;
	struct xu_receiver *receivers;
	u32 senders_count, senders_most, receivers_count, receivers_most;
	u32 is_attached, may_send;
	struct list_head has_room;	/* senders whose sockets have room again */
	struct tasklet_struct tasklet;
	wait_queue_head_t wait;
	bool has_news;
	struct mutex lock;
};

/* Sending */

static void xu_set_timer(struct xu_sender *sender, s64 at_ns)
{
	hrtimer_start(&sender->timer, ns_to_ktime(at_ns), HRTIMER_MODE_ABS_SOFT);
}

/* What is chosen and not sent is neither sent nor on the line */
static void xu_give_back(struct xu_sender *sender)
{
	if (sender->phase != XU_CHOOSE)
		*sender->line -= (sender->many - sender->done) * sender->given.frame_ns;
	if (sender->phase == XU_GIVE)
		sender->number += sender->done;
	sender->phase = XU_CHOOSE;
	sender->has_looked = 0;
}

static void xu_end(struct xu_sender *sender, int error)
{
	xu_give_back(sender);
	sender->is_blocked = 0;
	sender->is_over = 1;
	sender->error = error;
	WRITE_ONCE(sender->endpoint->has_news, true);
	wake_up_interruptible(&sender->endpoint->wait);
}

/* Give the socket one datagram */
static int xu_send(struct xu_sender *sender, u64 number)
{
	struct msghdr message = { .msg_flags = MSG_DONTWAIT };
	struct kvec piece = { .iov_base = sender->payload, .iov_len = sender->given.payload };
	int err;

	put_unaligned(number, (u64 *)sender->payload);
	put_unaligned((u64)sender->stamp_ns, (u64 *)(sender->payload + 8));
	err = kernel_sendmsg(sender->socket, &message, &piece, 1, sender->given.payload);
	return min(err, 0);
}

/* Choose datagrams; false if there are none now */
static bool xu_choose(struct xu_sender *sender, s64 now_ns)
{
	const struct xu_send *given = &sender->given;
	s64 until_ns;

	if (sender->number >= given->most || now_ns >= given->end_ns) {
		xu_end(sender, 0);
		return false;
	}
	if (given->gap_ps) {
		s64 due_ns = given->begin_ns + mul_u64_u64_div_u64(sender->number, given->gap_ps, 1000);

		if (due_ns > now_ns) {
			if (due_ns >= given->end_ns)
				xu_end(sender, 0);
			else
				xu_set_timer(sender, due_ns);
			return false;
		}
	}
	/* Who waits for the line gives it frame by frame, as evenly as it sends */
	sender->many = min_t(u64, sender->wait_ns ? 1 : given->at_once, given->most - sender->number);
	sender->done = 0;
	until_ns = max((s64)*sender->line, now_ns) + sender->many * given->frame_ns;
	*sender->line = until_ns;
	sender->wait_ns = max(until_ns - now_ns - given->held_ns, 0LL);
	sender->turn_ns = min(now_ns + sender->wait_ns, given->end_ns);
	sender->phase = XU_TURN;
	return true;
}

/* Send what is due, and set the timer */
static void xu_run(struct xu_sender *sender, s64 now_ns)
{
	while (!sender->is_over) {
		int err = 0;

		if (now_ns >= sender->given.end_ns || !sender->endpoint->may_send)
			xu_end(sender, 0);
		else if (sender->phase == XU_CHOOSE && !xu_choose(sender, now_ns))
			return;
		if (sender->is_over)
			return;
		if (sender->phase == XU_TURN) {
			if (now_ns < sender->turn_ns) {
				xu_set_timer(sender, sender->turn_ns);
				return;
			}
			sender->stamp_ns = now_ns;
			sender->phase = XU_GIVE;
		}
		while (sender->done < sender->many) {
			err = xu_send(sender, sender->number + sender->done);
			if (err)
				break;
			sender->has_looked = 0;
			sender->done++;
			WRITE_ONCE(*sender->sent, sender->number + sender->done);
		}
		if (err == -EAGAIN && !sender->has_looked) {
			sender->is_blocked = 1;
			mod_timer(&sender->look, jiffies + msecs_to_jiffies(XU_LOOK_MS));
			xu_set_timer(sender, sender->given.end_ns);
			return;
		}
		xu_give_back(sender);
		if (err == -EAGAIN)
			continue;	/* what goes on being blocked has a new time of sending */
		if (err && err != -ENOBUFS && err != -ECONNREFUSED) {
			xu_end(sender, err);
		} else if (err || !sender->given.gap_ps) {
			/* Without this a port that frees its socket at once would be given datagrams without end in no
			 * time
			 */
			xu_set_timer(sender, now_ns + XU_CALL_NS);
			return;
		}
	}
}

static enum hrtimer_restart xu_is_due(struct hrtimer *timer)
{
	struct xu_sender *sender = container_of(timer, struct xu_sender, timer);

	if (list_empty(&sender->has_room))
		xu_run(sender, ktime_get_ns());
	return HRTIMER_NORESTART;
}

static void xu_look(struct timer_list *look)
{
	struct xu_sender *sender = timer_container_of(sender, look, look);

	if (!sender->is_blocked)
		return;
	sender->is_blocked = 0;
	sender->has_looked = 1;
	xu_run(sender, ktime_get_ns());
}

/* A frame has left the port, or was dropped. A process that waits is woken when half of the buffer is free. */
static void xu_write_space(struct sock *sk)
{
	struct xu_sender *sender;

	rcu_read_lock();
	sender = rcu_dereference_sk_user_data(sk);
	if (sender && sender->is_blocked && sock_writeable(sk)) {
		sender->is_blocked = 0;
		timer_delete(&sender->look);
		hrtimer_try_to_cancel(&sender->timer);
		list_add_tail(&sender->has_room, &sender->endpoint->has_room);
		tasklet_schedule(&sender->endpoint->tasklet);
	}
	rcu_read_unlock();
}

static void xu_have_room(struct tasklet_struct *tasklet)
{
	struct xu_endpoint *endpoint = from_tasklet(endpoint, tasklet, tasklet);

	while (!list_empty(&endpoint->has_room)) {
		struct xu_sender *sender = list_first_entry(&endpoint->has_room, struct xu_sender, has_room);

		list_del_init(&sender->has_room);
		xu_run(sender, ktime_get_ns());
	}
}

/* Receiving */

static struct xu_gap *xu_add_gap(struct xu_receiver *receiver, u64 first, u64 end, u64 since)
{
	struct rb_node **place = &receiver->gaps.rb_node, *above = NULL;
	struct xu_gap *gap = kmalloc(sizeof(*gap), GFP_ATOMIC);

	if (!gap) {
		receiver->error = -ENOMEM;
		return NULL;
	}
	gap->first = first;
	gap->end = end;
	gap->since = since;
	while (*place) {
		above = *place;
		place = first < rb_entry(above, struct xu_gap, node)->first ? &above->rb_left : &above->rb_right;
	}
	rb_link_node(&gap->node, above, place);
	rb_insert_color(&gap->node, &receiver->gaps);
	return gap;
}

/* Take a number that has come out of the gaps, and tell since when it was missing; false if it was not */
static bool xu_fill(struct xu_receiver *receiver, u64 number, u64 *since)
{
	struct rb_node *node = receiver->gaps.rb_node;

	while (node) {
		struct xu_gap *gap = rb_entry(node, struct xu_gap, node);

		*since = gap->since;
		if (number < gap->first) {
			node = node->rb_left;
		} else if (number >= gap->end) {
			node = node->rb_right;
		} else if (gap->first + 1 == gap->end) {
			rb_erase(node, &receiver->gaps);
			kfree(gap);
			return true;
		} else if (number == gap->first) {
			gap->first++;
			return true;
		} else {
			u64 end = gap->end;

			gap->end = number;
			if (number + 1 < end)
				xu_add_gap(receiver, number + 1, end, gap->since);
			return true;
		}
	}
	return false;
}

/* Count a datagram, which is the next one, ahead of missing ones, late, or a duplicate */
static void xu_number(struct xu_receiver *receiver, u64 number)
{
	u64 since, distinct = receiver->arrivals.packets - 1 - receiver->doubled;

	if (number >= receiver->next) {
		if (number > receiver->next)
			xu_add_gap(receiver, receiver->next, number, distinct);
		receiver->next = number + 1;
	} else if (xu_fill(receiver, number, &since)) {
		receiver->out_of_order++;
		receiver->extent = max(receiver->extent, distinct - since);
	} else {
		receiver->doubled++;
	}
}

static int xu_on_datagram(struct sock *sk, struct sk_buff *skb)
{
	struct xu_receiver *receiver = rcu_dereference_sk_user_data(sk);
	s64 now_ns = ktime_get_ns();
	const u8 *datagram;
	u8 ds_field;

	if (!receiver || !pskb_may_pull(skb, sizeof(struct udphdr) + XU_SHORTEST))
		return 1;
	datagram = skb->data + sizeof(struct udphdr);
	ds_field = ip_hdr(skb)->version == 6 ? ipv6_get_dsfield(ipv6_hdr(skb)) : ip_hdr(skb)->tos;
	if (!xf_arrived(&receiver->arrivals, ds_field & 3, now_ns))
		receiver->error = -ENOMEM;
	xu_number(receiver, get_unaligned((u64 *)datagram));
	receiver->worst_delay_ns = max(receiver->worst_delay_ns,
				       now_ns - (s64)get_unaligned((u64 *)(datagram + 8)));
	consume_skb(skb);
	return 0;
}

/* Commands */

static long xu_attach(struct xu_endpoint *endpoint, const struct xu_attach __user *from)
{
	struct xu_attach given;
	long err;

	if (copy_from_user(&given, from, sizeof(given)))
		return -EFAULT;
	if (endpoint->is_attached)
		return -EBUSY;
	if (given.senders > XU_MOST_FLOWS || given.receivers > XU_MOST_FLOWS)
		return -EINVAL;
	endpoint->is_attached = 1;
	endpoint->senders = kvcalloc(given.senders, sizeof(*endpoint->senders), GFP_KERNEL);
	endpoint->receivers = kvcalloc(given.receivers, sizeof(*endpoint->receivers), GFP_KERNEL);
	if (!endpoint->senders || !endpoint->receivers)
		return -ENOMEM;
	err = xf_map(&endpoint->counters, given.counters, given.counters_size);
	if (err)
		return err;
	endpoint->senders_most = given.senders;
	endpoint->receivers_most = given.receivers;
	endpoint->may_send = 1;
	return 0;
}

static bool xu_is_valid(const struct xu_endpoint *endpoint, const struct xu_send *given)
{
	return given->payload >= XU_SHORTEST && given->payload <= XU_LONGEST && given->at_once &&
	       given->at_once <= XU_MOST_AT_ONCE && given->sent_at != XF_NOWHERE && given->line_at != XF_NOWHERE &&
	       xf_has(&endpoint->counters, given->sent_at) && xf_has(&endpoint->counters, given->line_at) &&
	       given->begin_ns >= 0 && given->end_ns >= 0 && given->frame_ns > 0 && given->held_ns >= 0;
}

static long xu_add_sender(struct xu_endpoint *endpoint, const struct xu_send __user *from)
{
	struct xu_sender *sender = &endpoint->senders[endpoint->senders_count];
	struct socket *socket;
	struct sock *sk;

	if (endpoint->senders_count == endpoint->senders_most)
		return -ENOSPC;
	if (copy_from_user(&sender->given, from, sizeof(sender->given)))
		return -EFAULT;
	if (!xu_is_valid(endpoint, &sender->given))
		return -EINVAL;
	socket = xf_socket(sender->given.socket);
	if (IS_ERR(socket))
		return PTR_ERR(socket);
	sender->payload = kvzalloc(sender->given.payload, GFP_KERNEL);
	if (!sender->payload) {
		sockfd_put(socket);
		return -ENOMEM;
	}
	sk = socket->sk;
	sender->endpoint = endpoint;
	sender->socket = socket;
	sender->sent = xf_counter(&endpoint->counters, sender->given.sent_at);
	sender->line = xf_counter(&endpoint->counters, sender->given.line_at);
	INIT_LIST_HEAD(&sender->has_room);
	hrtimer_setup(&sender->timer, xu_is_due, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
	timer_setup(&sender->look, xu_look, 0);
	lock_sock(sk);
	sk->sk_allocation = GFP_ATOMIC;	/* datagrams are sent in softirqs */
	write_lock_bh(&sk->sk_callback_lock);
	rcu_assign_sk_user_data(sk, sender);
	sender->write_space = sk->sk_write_space;
	sk->sk_write_space = xu_write_space;
	write_unlock_bh(&sk->sk_callback_lock);
	release_sock(sk);
	local_bh_disable();
	xu_set_timer(sender, sender->given.begin_ns);
	local_bh_enable();
	return endpoint->senders_count++;
}

static long xu_add_receiver(struct xu_endpoint *endpoint, const struct xu_receive __user *from)
{
	struct xu_receiver *receiver = &endpoint->receivers[endpoint->receivers_count];
	struct xu_receive given;
	struct socket *socket;

	if (endpoint->receivers_count == endpoint->receivers_most)
		return -ENOSPC;
	if (copy_from_user(&given, from, sizeof(given)))
		return -EFAULT;
	if (!xf_has(&endpoint->counters, given.received_at))
		return -EINVAL;
	socket = xf_socket(given.socket);
	if (IS_ERR(socket))
		return PTR_ERR(socket);
	receiver->socket = socket;
	receiver->arrivals.shown = xf_counter(&endpoint->counters, given.received_at);
	receiver->gaps = RB_ROOT;
	xf_take(socket, receiver, xu_on_datagram);
	return endpoint->receivers_count++;
}

static long xu_stop(struct xu_endpoint *endpoint)
{
	u32 i;

	local_bh_disable();
	endpoint->may_send = 0;
	for (i = 0; i < endpoint->senders_count; i++)
		xu_run(&endpoint->senders[i], ktime_get_ns());
	local_bh_enable();
	return 0;
}

static long xu_progress(struct xu_endpoint *endpoint, const struct xf_ask *asked)
{
	s32 __user *to = u64_to_user_ptr(asked->room);
	u32 i;

	WRITE_ONCE(endpoint->has_news, false);
	for (i = 0; i < endpoint->senders_count && (i + 1) * sizeof(*to) <= asked->size; i++) {
		const struct xu_sender *sender = &endpoint->senders[i];

		if (put_user(sender->error ?: (s32)sender->is_over, to + i))
			return -EFAULT;
	}
	return i;
}

static long xu_make_report(const struct xf_ask *asked, const struct xu_receiver *receiver)
{
	const struct xf_arrivals *arrivals = &receiver->arrivals;
	struct xu_report made = {
		.received = arrivals->packets, .doubled = receiver->doubled, .out_of_order = receiver->out_of_order,
		.extent = receiver->extent,
		.first_ns = arrivals->first_ns, .last_ns = arrivals->last_ns,
		.worst_delay_ns = receiver->worst_delay_ns, .windows = arrivals->windows_count,
		.error = receiver->error,
	};

	memcpy(made.ecn, arrivals->ecn, sizeof(made.ecn));
	return xf_give(asked, &made, sizeof(made));
}

static long xu_command(struct xu_endpoint *endpoint, unsigned int command, void __user *argument)
{
	const struct xu_receiver *receiver;
	struct xf_ask asked;

	switch (command) {
	case XU_ATTACH:
		return xu_attach(endpoint, argument);
	case XU_SEND:
		return xu_add_sender(endpoint, argument);
	case XU_RECEIVE:
		return xu_add_receiver(endpoint, argument);
	case XU_STOP:
		return xu_stop(endpoint);
	}
	if (copy_from_user(&asked, argument, sizeof(asked)))
		return -EFAULT;
	if (command == XU_PROGRESS)
		return xu_progress(endpoint, &asked);
	if (asked.number >= endpoint->receivers_count)
		return -ENOENT;
	receiver = &endpoint->receivers[asked.number];
	switch (command) {
	case XU_REPORT:
		return xu_make_report(&asked, receiver);
	case XU_WINDOWS:
		return xf_give(&asked, receiver->arrivals.windows,
			       receiver->arrivals.windows_count * sizeof(*receiver->arrivals.windows));
	}
	return -ENOTTY;
}

static long xu_ioctl(struct file *file, unsigned int command, unsigned long argument)
{
	struct xu_endpoint *endpoint = file->private_data;
	long found;

	mutex_lock(&endpoint->lock);
	found = xu_command(endpoint, command, (void __user *)argument);
	mutex_unlock(&endpoint->lock);
	return found;
}

static __poll_t xu_poll(struct file *file, struct poll_table_struct *table)
{
	struct xu_endpoint *endpoint = file->private_data;

	poll_wait(file, &endpoint->wait, table);
	return READ_ONCE(endpoint->has_news) ? EPOLLIN : 0;
}

static int xu_open(struct inode *inode, struct file *file)
{
	struct xu_endpoint *endpoint = kzalloc(sizeof(*endpoint), GFP_KERNEL);

	if (!endpoint)
		return -ENOMEM;
	INIT_LIST_HEAD(&endpoint->has_room);
	init_waitqueue_head(&endpoint->wait);
	mutex_init(&endpoint->lock);
	tasklet_setup(&endpoint->tasklet, xu_have_room);
	file->private_data = endpoint;
	return 0;
}

static void xu_release_sender(struct xu_sender *sender)
{
	struct sock *sk = sender->socket->sk;

	write_lock_bh(&sk->sk_callback_lock);	/* frames that are on their way find nobody to wake */
	sk->sk_write_space = sender->write_space;
	rcu_assign_sk_user_data(sk, NULL);
	write_unlock_bh(&sk->sk_callback_lock);
	local_bh_disable();
	list_del_init(&sender->has_room);
	sender->is_over = 1;
	local_bh_enable();
	hrtimer_cancel(&sender->timer);
	timer_shutdown_sync(&sender->look);
	kvfree(sender->payload);
	sockfd_put(sender->socket);
}

static void xu_release_receiver(struct xu_receiver *receiver)
{
	struct xu_gap *gap, *next;

	xf_leave(receiver->socket);
	rbtree_postorder_for_each_entry_safe(gap, next, &receiver->gaps, node)
		kfree(gap);
	kvfree(receiver->arrivals.windows);
	sockfd_put(receiver->socket);
}

static int xu_release(struct inode *inode, struct file *file)
{
	struct xu_endpoint *endpoint = file->private_data;
	u32 i;

	for (i = 0; i < endpoint->senders_count; i++)
		xu_release_sender(&endpoint->senders[i]);
	for (i = 0; i < endpoint->receivers_count; i++)
		xu_release_receiver(&endpoint->receivers[i]);
	tasklet_kill(&endpoint->tasklet);
	xf_unmap(&endpoint->counters);
	kvfree(endpoint->senders);
	kvfree(endpoint->receivers);
	kfree(endpoint);
	return 0;
}

static const struct file_operations xu_operations = {
	.owner = THIS_MODULE,
	.open = xu_open,
	.release = xu_release,
	.poll = xu_poll,
	.unlocked_ioctl = xu_ioctl,
	.llseek = noop_llseek,
};

static struct miscdevice xu_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "xoff-udp",
	.fops = &xu_operations,
	.mode = 0600,
};

static int __init xu_init(void)
{
	return misc_register(&xu_device);
}
device_initcall(xu_init);
