// SPDX-License-Identifier: GPL-2.0
/*
 * The frequent work of PFC agents: testbed/agent/pfc/loop.py without switches between the kernel and a process. What
 * is decided is in xoff_pfc_rules.h.
 *
 * An agent opens /dev/xoff-pfc, adds its ports with their packet sockets, and sleeps. From then on the port program's
 * events are read here: for a crossed threshold a PFC frame is sent after the agent's reaction time, and a PFC frame
 * that has come stops or resumes queues. All of it runs in softirqs. Whatever is rare is left to the process: it is
 * woken, takes the states of its ports back, and finds the event in the ring. So are all times that come to their end.
 *
 * Events are served one after the other, as by the process. Only the process to which this is done ends it: when it is
 * killed nothing is sent or stopped any more, also if others have inherited the file.
 */
#include <linux/bpf.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/hrtimer.h>
#include <linux/init.h>
#include <linux/interrupt.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/net.h>
#include <linux/pid.h>
#include <linux/poll.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/uio.h>
#include <net/netlink.h>
#include <net/pkt_sched.h>
#include <net/sch_generic.h>
#include <net/sock.h>
#include <linux/xoff_credits.h>
#include <linux/xoff_rule.h>
#include "xoff_credit_device.h"
#include "xoff_flow.h"
#include "xoff_pfc_rules.h"

#define XP_STATE_SIZE 512
#define XP_MOST_RECORDS 24	/* more than one event ever leads to */
#define XP_LOG_PAGES 16		/* of the log at once, at the most: each holds some memory */

/* As in testbed/agent/event_log.py */
struct xp_record {
	u64 time_ns;
	u16 kind, slot;
	u32 mask;
	s64 value;
};

/* Memory of the process, which is not mapped here: each page is found by itself, so that a network with hundreds of
 * agents takes no mappings of the host for it
 */
struct xp_pages {
	struct page **pages;
	u32 count, offset;
};

struct xp_port {
	struct xp_served served;
	struct socket *socket;
	struct xp_pages timers;
};

struct xp_agent {
	struct mutex lock;
	struct pid *owner;
	bool is_attached, is_ended;
	bool serves;		/* or the process does */
	bool is_wanted;		/* the process takes over after this event */
	u32 news;
	wait_queue_head_t wait;

	struct file *ring;
	poll_table table;
	wait_queue_head_t *ring_wait;
	wait_queue_entry_t entry;
	struct xp_pages consumed, produced;
	u32 ring_size;
	struct bpf_map *groups;
	u32 congested_at;

	struct xp_port *ports;
	u32 count, most;
	struct xp_pages states, lateness, log_front, log;
	u64 log_first, log_end, log_room;
	s64 own_due_ns, armed_ns;

	struct tasklet_struct tasklet;
	struct hrtimer reaction, deadline;
	struct xp_turn turn;	/* of the event at the ring's head */
	u64 next;		/* the ring's position behind it */
};

static struct xp_agent *xp_agent_of(const struct xp_turn *turn)
{
	return container_of(turn, struct xp_agent, turn);
}

static struct xp_port *xp_whole(const struct xp_served *port)
{
	return container_of(port, struct xp_port, served);
}

/* Memory */

static void xp_unpin(struct xp_pages *pages)
{
	if (pages->count)
		unpin_user_pages(pages->pages, pages->count);
	kfree(pages->pages);
	memset(pages, 0, sizeof(*pages));
}

static long xp_pin(struct xp_pages *pages, u64 address, u64 size, unsigned int flags)
{
	u32 many = DIV_ROUND_UP(offset_in_page(address) + size, PAGE_SIZE);
	int found;

	pages->pages = kcalloc(many, sizeof(*pages->pages), GFP_KERNEL);
	if (!pages->pages)
		return -ENOMEM;
	found = pin_user_pages_fast(address & PAGE_MASK, many, flags | FOLL_LONGTERM, pages->pages);
	pages->count = max(found, 0);
	pages->offset = offset_in_page(address);
	return found == many ? 0 : found < 0 ? found : -EFAULT;
}

static void *xp_at(const struct xp_pages *pages, u64 at)
{
	at += pages->offset;
	return page_address(pages->pages[at >> PAGE_SHIFT]) + offset_in_page(at);
}

/* What reaches into the next page is copied in two pieces */
static u32 xp_first_piece(const struct xp_pages *pages, u64 at, u32 size)
{
	return min_t(u32, size, PAGE_SIZE - offset_in_page(at + pages->offset));
}

static void xp_get(const struct xp_pages *pages, u64 at, void *to, u32 size)
{
	u32 first = xp_first_piece(pages, at, size);

	memcpy(to, xp_at(pages, at), first);
	if (first < size)
		memcpy(to + first, xp_at(pages, at + first), size - first);
}

static void xp_put(const struct xp_pages *pages, u64 at, const void *from, u32 size)
{
	u32 first = xp_first_piece(pages, at, size);

	memcpy(xp_at(pages, at), from, first);
	if (first < size)
		memcpy(xp_at(pages, at + first), from + first, size - first);
}

/* The log: first the record, then the end behind it */
static void xp_log(struct xp_turn *turn, s64 at_ns, u16 kind, u16 slot, u32 mask, s64 value)
{
	struct xp_agent *agent = xp_agent_of(turn);
	struct xp_record record = { .time_ns = at_ns, .kind = kind, .slot = slot, .mask = mask, .value = value };

	xp_put(&agent->log, agent->log_end - agent->log_first, &record, sizeof(record));
	agent->log_end += sizeof(record);
	smp_store_release((u64 *)xp_at(&agent->log_front, 0), agent->log_end);
}

static bool xp_has_room(const struct xp_agent *agent)
{
	return agent->log_end + XP_MOST_RECORDS * sizeof(struct xp_record) <= agent->log_room;
}

/* What the rules ask for */

static s64 xp_now(const struct xp_turn *turn)
{
	return ktime_get_ns();
}

static s64 *xp_timer(const struct xp_served *port, u32 number)
{
	return xp_at(&xp_whole(port)->timers, number * sizeof(s64));
}

static void xp_note_late(struct xp_turn *turn, s64 late_ns)
{
	s64 *worst = xp_at(&xp_agent_of(turn)->lateness, 0);

	WRITE_ONCE(*worst, max(*worst, late_ns));
}

static bool xp_is_congested(const struct xp_turn *turn)
{
	const struct xp_agent *agent = xp_agent_of(turn);
	u32 key = turn->event.slot * XP_PRIORITIES + (turn->event.priority & 7);
	const void *group = agent->groups->ops->map_lookup_elem(agent->groups, &key);

	return group && *(const u32 *)(group + agent->congested_at);
}

static void xp_send(struct xp_turn *turn, const u8 *frame)
{
	struct msghdr message = { .msg_flags = MSG_DONTWAIT };
	struct kvec piece = { .iov_base = (u8 *)frame, .iov_len = XP_PFC_LENGTH };
	int err = kernel_sendmsg(xp_whole(turn->port)->socket, &message, &piece, 1, XP_PFC_LENGTH);

	if (err < 0)
		xp_log(turn, ktime_get_ns(), XP_LOG_SEND_FAILED, turn->port->given.slot, 0, -err);
}

/* As the netlink message of testbed/linux/netlink/qdiscs.py, to which the kernel does not answer either */
static void xp_change_plug(struct net_device *dev, u32 below, int action)
{
	struct {
		struct nlattr head;
		struct tc_plug_qopt option;
	} message = {
		.head = { .nla_len = NLA_HDRLEN + sizeof(message.option), .nla_type = TCA_OPTIONS },
		.option = { .action = action },
	};
	struct Qdisc *above = qdisc_lookup_rcu(dev, TC_H_MAJ(below)), *plug;
	unsigned long class;

	if (!above || !above->ops->cl_ops)
		return;
	class = above->ops->cl_ops->find(above, below);
	plug = class ? above->ops->cl_ops->leaf(above, class) : NULL;
	if (plug && !strcmp(plug->ops->id, "plug"))
		plug->ops->change(plug, &message.head, NULL);
}

static void xp_change_queues(struct xp_turn *turn, u8 queues, bool stop)
{
	const struct xp_add *given = &turn->port->given;
	int action = stop ? TCQ_PLUG_BUFFER : TCQ_PLUG_RELEASE_INDEFINITE;
	struct net_device *dev;
	u32 queue, i;

	rcu_read_lock();
	dev = dev_get_by_index_rcu(sock_net(xp_whole(turn->port)->socket->sk), given->interface);
	for (queue = 0; dev && queue < XP_PRIORITIES; queue++)
		for (i = 0; queues >> queue & 1 && i < XP_PLACES && given->places[queue][i]; i++)
			xp_change_plug(dev, given->places[queue][i], action);
	rcu_read_unlock();
}

/* Events */

/* Read the event at the ring's head; false if there is none */
static bool xp_read(struct xp_agent *agent)
{
	u64 *consumed = xp_at(&agent->consumed, 0), at;
	u32 header, length;

	while (*consumed < smp_load_acquire((u64 *)xp_at(&agent->produced, 0))) {
		at = PAGE_SIZE + (*consumed & (agent->ring_size - 1) & ~7ULL);
		header = smp_load_acquire((u32 *)xp_at(&agent->produced, at));
		if (header & BPF_RINGBUF_BUSY_BIT)
			return false;
		length = header & ~BPF_RINGBUF_DISCARD_BIT;
		agent->next = *consumed + round_up(length + BPF_RINGBUF_HDR_SZ, 8);
		if (!(header & BPF_RINGBUF_DISCARD_BIT)) {
			xp_get(&agent->produced, at + BPF_RINGBUF_HDR_SZ, &agent->turn.event,
			       min_t(u32, length, sizeof(agent->turn.event)));
			return true;
		}
		smp_store_release(consumed, agent->next);
	}
	return false;
}

static struct xp_served *xp_port_of(const struct xp_agent *agent, u32 slot)
{
	u32 place = slot - agent->ports[0].served.given.slot;

	if (place < agent->count && agent->ports[place].served.given.slot == slot)
		return &agent->ports[place].served;
	for (place = 0; place < agent->count; place++)
		if (agent->ports[place].served.given.slot == slot)
			return &agent->ports[place].served;
	return NULL;
}

/* Have the process take over when the event under way is done */
static void xp_want(struct xp_agent *agent, u32 news)
{
	agent->serves = false;
	WRITE_ONCE(agent->news, agent->news | news);
	wake_up_interruptible(&agent->wait);
}

/* A timer that is set already and fires too early costs less than to set it with each event */
static void xp_arm(struct xp_agent *agent, s64 due_ns)
{
	if (due_ns < agent->armed_ns) {
		agent->armed_ns = due_ns;
		hrtimer_start(&agent->deadline, ns_to_ktime(due_ns), HRTIMER_MODE_ABS_SOFT);
	}
}

/* A process that is stopped by a signal does nothing, so nothing is done for it */
static bool xp_is_stopped(const struct xp_agent *agent)
{
	struct task_struct *task;
	bool is_stopped;

	rcu_read_lock();
	task = pid_task(agent->owner, PIDTYPE_TGID);
	is_stopped = task && task->signal->flags & SIGNAL_STOP_STOPPED;
	rcu_read_unlock();
	return is_stopped;
}

/* Serve the events that are there */
static void xp_serve_events(struct xp_agent *agent)
{
	struct xp_turn *turn = &agent->turn;

	while (turn->step != XP_READ || agent->serves) {
		if (turn->step == XP_READ) {
			if (!xp_read(agent))
				return;
			if (!xp_has_room(agent)) {
				xp_want(agent, XP_LOG);
				return;
			}
			if (xp_is_stopped(agent)) {
				xp_want(agent, XP_EVENT);
				return;
			}
			turn->port = xp_port_of(agent, turn->event.slot);
		}
		if (turn->port) {
			switch (xp_go_on(turn)) {
			case XP_WAITS:
				hrtimer_start(&agent->reaction, ns_to_ktime(turn->due_ns), HRTIMER_MODE_ABS_SOFT);
				return;
			case XP_LEAVES:
				xp_want(agent, XP_EVENT);
				return;
			case XP_DONE:
				xp_arm(agent, xp_due_ns(turn->port));
			}
		}
		turn->step = XP_READ;
		smp_store_release((u64 *)xp_at(&agent->consumed, 0), agent->next);
		if (agent->is_wanted)
			wake_up(&agent->wait);
	}
}

static void xp_has_events(struct tasklet_struct *tasklet)
{
	struct xp_agent *agent = from_tasklet(agent, tasklet, tasklet);

	if (agent->serves && agent->turn.step == XP_READ)
		xp_serve_events(agent);
}

static int xp_ring_wakes(wait_queue_entry_t *entry, unsigned int mode, int sync, void *key)
{
	struct xp_agent *agent = container_of(entry, struct xp_agent, entry);

	if (agent->serves && agent->turn.step == XP_READ)
		tasklet_schedule(&agent->tasklet);
	return 0;
}

static enum hrtimer_restart xp_has_reacted(struct hrtimer *timer)
{
	struct xp_agent *agent = container_of(timer, struct xp_agent, reaction);

	if (agent->turn.step != XP_READ)
		xp_serve_events(agent);
	return HRTIMER_NORESTART;
}

static s64 xp_first_due_ns(const struct xp_agent *agent)
{
	s64 due_ns = agent->own_due_ns;
	u32 i;

	for (i = 0; i < agent->count; i++)
		due_ns = min(due_ns, xp_due_ns(&agent->ports[i].served));
	return due_ns;
}

static enum hrtimer_restart xp_is_due(struct hrtimer *timer)
{
	struct xp_agent *agent = container_of(timer, struct xp_agent, deadline);
	s64 due_ns;

	agent->armed_ns = XF_NEVER;
	if (!agent->serves)
		return HRTIMER_NORESTART;
	due_ns = xp_first_due_ns(agent);
	if (due_ns <= (s64)ktime_get_ns())
		xp_want(agent, XP_DUE);
	else if (due_ns != XF_NEVER)
		xp_arm(agent, due_ns);
	return HRTIMER_NORESTART;
}

/* Commands */

static void xp_watch_ring(struct file *file, wait_queue_head_t *head, poll_table *table)
{
	struct xp_agent *agent = container_of(table, struct xp_agent, table);

	agent->ring_wait = head;
	init_waitqueue_func_entry(&agent->entry, xp_ring_wakes);
	add_wait_queue(head, &agent->entry);
}

static long xp_attach(struct xp_agent *agent, const struct xp_attach __user *from)
{
	struct xp_attach given;
	struct bpf_map *groups;
	long err;

	BUILD_BUG_ON(sizeof(struct xp_state) > XP_STATE_SIZE || PAGE_SIZE % XP_STATE_SIZE);
	if (copy_from_user(&given, from, sizeof(given)))
		return -EFAULT;
	if (agent->is_attached)
		return -EBUSY;
	if (!given.ports || given.ports > XP_MOST_PORTS || !is_power_of_2(given.ring_size) ||
	    given.ring_size < PAGE_SIZE || given.states % PAGE_SIZE || given.lateness % sizeof(s64))
		return -EINVAL;
	agent->is_attached = true;
	agent->ports = kvcalloc(given.ports, sizeof(*agent->ports), GFP_KERNEL);
	if (!agent->ports)
		return -ENOMEM;
	err = xp_pin(&agent->states, given.states, given.ports * XP_STATE_SIZE, FOLL_WRITE);
	err = err ?: xp_pin(&agent->lateness, given.lateness, sizeof(s64), FOLL_WRITE);
	err = err ?: xp_pin(&agent->consumed, given.consumed, PAGE_SIZE, FOLL_WRITE);
	/* The data are mapped twice in a row, so that no event is cut */
	err = err ?: xp_pin(&agent->produced, given.produced, PAGE_SIZE + 2 * given.ring_size, 0);
	if (err)
		return err;
	agent->ring_size = given.ring_size;
	agent->congested_at = given.congested_at;
	groups = bpf_map_get(given.groups);
	if (IS_ERR(groups))
		return PTR_ERR(groups);
	agent->groups = groups;
	if (groups->map_type != BPF_MAP_TYPE_ARRAY || given.congested_at % sizeof(u32) ||
	    given.congested_at + sizeof(u32) > groups->value_size)
		return -EINVAL;
	agent->ring = fget(given.ring);
	if (!agent->ring)
		return -EBADF;
	agent->most = given.ports;
	init_poll_funcptr(&agent->table, xp_watch_ring);
	vfs_poll(agent->ring, &agent->table);
	return agent->ring_wait ? 0 : -EINVAL;
}

static long xp_add(struct xp_agent *agent, const struct xp_add __user *from)
{
	struct xp_port *port = &agent->ports[agent->count];
	struct socket *socket;
	int err = 0;

	if (agent->count == agent->most)
		return -ENOSPC;
	if (copy_from_user(&port->served.given, from, sizeof(port->served.given)))
		return -EFAULT;
	if (!port->served.given.rate_bps || port->served.given.timers % sizeof(s64))
		return -EINVAL;
	socket = sockfd_lookup(port->served.given.socket, &err);
	if (!socket)
		return err;
	if (socket->sk->sk_family != AF_PACKET) {
		sockfd_put(socket);
		return -EINVAL;
	}
	err = xp_pin(&port->timers, port->served.given.timers, XP_TIMERS * sizeof(s64), FOLL_WRITE);
	if (err) {
		xp_unpin(&port->timers);
		sockfd_put(socket);
		return err;
	}
	socket->sk->sk_allocation = GFP_ATOMIC;	/* frames are sent in softirqs */
	port->socket = socket;
	port->served.state = xp_at(&agent->states, agent->count * XP_STATE_SIZE);
	return agent->count++;
}

/* Have the part of the log into which the next records go. It is small at first, for most agents have little to say. */
static long xp_find_log(struct xp_agent *agent, const struct xp_serve *given)
{
	u64 first = given->log_end & PAGE_MASK, pages;
	long err;

	if (!agent->log_front.count) {
		err = xp_pin(&agent->log_front, given->log, sizeof(u64), FOLL_WRITE);
		if (err) {
			xp_unpin(&agent->log_front);
			return err;
		}
	}
	agent->log_end = given->log_end;
	if (agent->log.count && given->log_end >= agent->log_first && xp_has_room(agent))
		return 0;
	pages = clamp_t(u64, given->log_end >> PAGE_SHIFT, 2, XP_LOG_PAGES);
	xp_unpin(&agent->log);
	agent->log_first = first;
	agent->log_room = min(given->log_room, first + pages * PAGE_SIZE);
	if (!xp_has_room(agent))
		return -ENOSPC;
	err = xp_pin(&agent->log, given->log + first, agent->log_room - first, FOLL_WRITE);
	if (err)
		xp_unpin(&agent->log);
	return err;
}

static long xp_serve(struct xp_agent *agent, const struct xp_serve __user *from)
{
	struct xp_serve given;
	long err;

	if (copy_from_user(&given, from, sizeof(given)))
		return -EFAULT;
	if (agent->serves || agent->count != agent->most)
		return -EINVAL;
	if (given.log % PAGE_SIZE || given.log_end % sizeof(u64))
		return -EINVAL;
	err = xp_find_log(agent, &given);
	if (err)
		return err;
	if (!agent->owner)
		agent->owner = get_pid(task_tgid(current));
	local_bh_disable();
	agent->turn.started_ns = given.started_ns;
	agent->own_due_ns = given.due_ns;
	agent->is_wanted = false;
	agent->news = 0;
	agent->serves = true;
	xp_arm(agent, xp_first_due_ns(agent));
	xp_serve_events(agent);
	local_bh_enable();
	return 0;
}

static long xp_take(struct xp_agent *agent, struct xp_taken __user *to)
{
	struct xp_taken taken = { };
	int err;

	local_bh_disable();
	agent->serves = false;
	agent->is_wanted = true;
	local_bh_enable();
	err = wait_event_killable(agent->wait, READ_ONCE(agent->turn.step) == XP_READ);
	if (err)
		return err;
	taken.now_ns = ktime_get_ns();
	taken.news = agent->news;
	agent->news = 0;
	return copy_to_user(to, &taken, sizeof(taken)) ? -EFAULT : 0;
}

static long xp_ioctl(struct file *file, unsigned int command, unsigned long argument)
{
	struct xp_agent *agent = file->private_data;
	long found = -ENOTTY;

	if (command == XC_OPEN)
		return xoff_credits_open();
	if (command == XS_OPEN)
		return xs_open();
	mutex_lock(&agent->lock);
	if (agent->is_ended)
		found = -ESHUTDOWN;
	else if (command == XP_ATTACH)
		found = xp_attach(agent, (void __user *)argument);
	else if (!agent->is_attached)
		found = -EINVAL;
	else if (command == XP_ADD)
		found = xp_add(agent, (void __user *)argument);
	else if (command == XP_SERVE)
		found = xp_serve(agent, (void __user *)argument);
	else if (command == XP_TAKE)
		found = xp_take(agent, (void __user *)argument);
	mutex_unlock(&agent->lock);
	return found;
}

static __poll_t xp_poll(struct file *file, struct poll_table_struct *table)
{
	struct xp_agent *agent = file->private_data;

	poll_wait(file, &agent->wait, table);
	return READ_ONCE(agent->news) ? EPOLLIN : 0;
}

static int xp_open(struct inode *inode, struct file *file)
{
	struct xp_agent *agent = kzalloc(sizeof(*agent), GFP_KERNEL);

	if (!agent)
		return -ENOMEM;
	mutex_init(&agent->lock);
	init_waitqueue_head(&agent->wait);
	tasklet_setup(&agent->tasklet, xp_has_events);
	hrtimer_setup(&agent->reaction, xp_has_reacted, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
	hrtimer_setup(&agent->deadline, xp_is_due, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
	agent->armed_ns = XF_NEVER;
	file->private_data = agent;
	return 0;
}

static void xp_end(struct xp_agent *agent)
{
	u32 i;

	mutex_lock(&agent->lock);
	if (agent->is_ended)
		goto out;
	local_bh_disable();
	agent->is_ended = true;
	agent->serves = false;
	agent->turn.step = XP_READ;
	local_bh_enable();
	if (agent->ring_wait)
		remove_wait_queue(agent->ring_wait, &agent->entry);
	hrtimer_cancel(&agent->reaction);
	hrtimer_cancel(&agent->deadline);
	tasklet_kill(&agent->tasklet);
	for (i = 0; i < agent->count; i++) {
		xp_unpin(&agent->ports[i].timers);
		sockfd_put(agent->ports[i].socket);
	}
	xp_unpin(&agent->states);
	xp_unpin(&agent->lateness);
	xp_unpin(&agent->log_front);
	xp_unpin(&agent->log);
	xp_unpin(&agent->consumed);
	xp_unpin(&agent->produced);
	if (agent->groups)
		bpf_map_put(agent->groups);
	if (agent->ring)
		fput(agent->ring);
	kvfree(agent->ports);
out:
	mutex_unlock(&agent->lock);
}

/* A process closes the file, or has ended: others may have it, for agents are forked one after the other */
static int xp_flush(struct file *file, fl_owner_t id)
{
	struct xp_agent *agent = file->private_data;

	if (agent->owner && agent->owner == task_tgid(current))
		xp_end(agent);
	return 0;
}

static int xp_release(struct inode *inode, struct file *file)
{
	struct xp_agent *agent = file->private_data;

	xp_end(agent);
	put_pid(agent->owner);
	kfree(agent);
	return 0;
}

static const struct file_operations xp_operations = {
	.owner = THIS_MODULE,
	.open = xp_open,
	.flush = xp_flush,
	.release = xp_release,
	.poll = xp_poll,
	.unlocked_ioctl = xp_ioctl,
	.llseek = noop_llseek,
};

static struct miscdevice xp_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "xoff-pfc",
	.fops = &xp_operations,
	.mode = 0600,
};

static int __init xp_init(void)
{
	return misc_register(&xp_device);
}
device_initcall(xp_init);
