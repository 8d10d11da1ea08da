// SPDX-License-Identifier: GPL-2.0
/*
 * Rules of one's own in a switch, see xoff_rule.h: what qdisc red and the port program ask of each frame.
 *
 * After a fault a rule is not asked any more: red goes by its curve, the scheduler has the weights of before, and the
 * port program does what it does without a rule.
 *
 * Stated in: testbed/switch/rules/choosing.py, testbed/switch/rules/hooks.py.
 * Compared by: tests/lab/rules/test_hooks.py.
 */
#include <linux/anon_inodes.h>
#include <linux/bpf.h>
#include <linux/filter.h>
#include <linux/fs.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/refcount.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <net/inet_ecn.h>
#include <net/pkt_sched.h>
#include <net/sch_generic.h>
#include <linux/xoff_rule.h>
#include "xoff_control_vm.h"

#define XS_PORTS 2048
#define XS_FIRST_INTERFACE 4096	/* as FIRST_INTERFACE of port.bpf.c */
#define XS_SWITCHES 1024
#define XS_QUEUES 8
#define XS_BESIDE_MTU 42	/* of a frame on the wire */
#define XS_MOST_SIZE (sizeof(struct xs_given) + XC_MOST_CODE * sizeof(struct xc_op) + XC_MOST_CELLS * 8)

struct xs_rule {
	refcount_t users;		/* qdiscs */
	struct xc_program program;
	union xc_number *frame;
	u64 asked;
	s64 fault_ns;
	u32 fault, fault_at;
	int interface;			/* of a port whose rule the port program asks */
	u32 weights[XS_QUEUES];		/* that were asked for; 0: none */
	int quanta[XS_QUEUES];		/* of queues with such a weight: those of before */
};

static struct xs_rule **xs_ports;	/* by slot; made for the first rule that the port program asks */
static struct xs_rule *xs_switches[XS_SWITCHES];
static struct file *xs_owners[XS_SWITCHES];
static DEFINE_MUTEX(xs_lock);

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

	BUILD_BUG_ON(XS_ENTRIES != XC_ENTRIES || XS_STATE != XR_STATE || XS_MORE != XC_MORE ||
		     XS_COLUMNS != XC_COLUMNS || XS_WAYS != XC_WAYS || XS_TOLD != XC_STATE - XS_NOW);
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
		.count = given->count, .cells = given->cells, .more = given->more, .code = (struct xc_op *)((u8 *)rule->frame + cells),
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
	if (!rule || !refcount_dec_and_test(&rule->users))
		return;
	if (rule->interface && xs_ports[rule->interface - XS_FIRST_INTERFACE] == rule) {
		xs_ports[rule->interface - XS_FIRST_INTERFACE] = NULL;
		synchronize_rcu();
	}
	kvfree(rule);
}

/* Let the port program find the rule of a port, if it has something to ask */
void xs_place(struct xs_rule *rule, int interface)
{
	u32 slot = interface - XS_FIRST_INTERFACE;

	if (slot >= XS_PORTS ||
	    (rule->program.entries[XS_ADMITS] == XC_NO_ENTRY && rule->program.entries[XS_STAMPS] == XC_NO_ENTRY))
		return;
	if (!xs_ports)
		xs_ports = kvcalloc(XS_PORTS, sizeof(*xs_ports), GFP_ATOMIC);
	if (!xs_ports)
		return;
	rule->interface = interface;
	WRITE_ONCE(xs_ports[slot], rule);
}

static void xs_fault(struct xs_rule *rule, u32 fault, u32 at, s64 now_ns)
{
	rule->fault = fault;
	rule->fault_at = at;
	rule->fault_ns = now_ns;
}

/* The class of the scheduler in which the frames of a queue wait, and the scheduler; @below is what red has */
static struct Qdisc *xs_scheduler(const struct Qdisc *below, u32 *classid)
{
	struct net_device *dev = qdisc_dev(below);
	struct Qdisc *above;

	do {
		*classid = below->parent;
		above = qdisc_lookup_rcu(dev, TC_H_MAJ(*classid));
		below = above;
	} while (above && strcmp(above->ops->id, "htb"));
	return above;
}

/* Give a queue its weight; 0: the one that it had at first */
static void xs_set_weight(struct xs_rule *rule, u32 queue, u32 weight, const struct Qdisc *below)
{
	struct Qdisc *scheduler;
	u32 classid;
	int before;

	queue &= XS_QUEUES - 1;
	if (rule->weights[queue] == weight)
		return;
	scheduler = xs_scheduler(below, &classid);
	if (!scheduler)
		return;
	before = htb_set_quantum(scheduler, classid, weight ? weight * (qdisc_dev(below)->mtu + XS_BESIDE_MTU)
							    : rule->quanta[queue]);
	if (!rule->weights[queue])
		rule->quanta[queue] = before;
	rule->weights[queue] = weight;
}

/* Which numbers an answer may be */
static bool xs_may_answer(u32 event, s64 answer)
{
	switch (event) {
	case XS_ADMITS:
		return answer >= 0 && answer <= 2;
	case XS_STAMPS:
		return answer >= 0 && answer <= U32_MAX;
	case XS_WEIGHS:
		return answer >= 1 && answer <= 100;
	}
	return true;
}

/* Ask a rule; -1 if there is no answer */
static s64 xs_answer(struct xs_rule *rule, u32 event, const s64 *told, u32 numbers)
{
	u32 fault, at;
	s64 answer;

	rule->asked++;
	fault = xs_told(&rule->program, event, rule->frame, told, numbers, &answer, &at);
	if (!fault && !xs_may_answer(event, answer)) {
		fault = XC_BAD_ANSWER;
		at = rule->program.entries[event];
	}
	if (!fault)
		return answer;
	xs_fault(rule, fault, at, told[0]);
	return -1;
}

/* What the weight of a frame's queue is from now on */
static void xs_weigh(struct xs_rule *rule, const struct xs_frame *about, const struct Qdisc *below)
{
	const s64 told[] = {
		about->now_ns, about->queue, about->octets, about->ecn, about->queued_octets, about->queued_frames, 0,
	};
	s64 weight = xs_answer(rule, XS_WEIGHS, told, ARRAY_SIZE(told));

	if (weight > 0)
		xs_set_weight(rule, about->queue, weight, below);
}

/* Ask a rule about a frame, with what waits in the queue beside it: 1 to mark it, 0 not to, -1 if there is no answer */
int xs_asked(struct xs_rule *rule, u32 event, u32 queue, struct sk_buff *skb, const struct Qdisc *below)
{
	struct xs_frame about = { .now_ns = ktime_get_ns() };
	u32 marks, fault, at;
	bool weighs;

	if (event == XS_ARRIVES)
		*xs_came_ns(skb) = about.now_ns;
	if (rule->fault) {
		xs_set_weight(rule, queue, 0, below);
		return -1;
	}
	weighs = event == XS_ARRIVES && rule->program.entries[XS_WEIGHS] != XC_NO_ENTRY;
	if (rule->program.entries[event] == XC_NO_ENTRY && !weighs)
		return 0;
	about.waited_ns = about.now_ns - *xs_came_ns(skb);
	about.queue = queue;
	about.octets = qdisc_pkt_len(skb);
	about.ecn = xs_ecn(skb);
	about.queued_octets = below->qstats.backlog;
	about.queued_frames = below->q.qlen;
	if (weighs) {
		xs_weigh(rule, &about, below);
		if (rule->fault)
			return -1;
	}
	if (rule->program.entries[event] == XC_NO_ENTRY)
		return 0;
	rule->asked++;
	fault = xs_ask(&rule->program, event, rule->frame, &about, &marks, &at);
	if (!fault)
		return marks;
	xs_fault(rule, fault, at, about.now_ns);
	return -1;
}

/* By which way a frame leaves; -1 if there is no answer */
static s64 xs_way(struct xs_rule *rule, const struct xs_asked *asked)
{
	s64 way;

	if (!asked->ways || asked->ways > XS_WAYS)
		return -1;
	xs_tell_ways(&rule->program, rule->frame, asked->more, asked->rows[0], asked->ways);
	way = xs_answer(rule, XS_CHOOSES, asked->told, XS_TOLD);
	if (way >= asked->ways || (way < 0 && !rule->fault))
		xs_fault(rule, XC_BAD_ANSWER, rule->program.entries[XS_CHOOSES], asked->told[0]);
	return rule->fault ? -1 : way;
}

/* What the port program calls: the answer of a rule; -1 if there is no rule, or it has no answer. All that is told of ways
 * says that they are asked for. */
BPF_CALL_3(xs_bpf_ask, u32, event, const struct xs_asked *, asked, u32, size)
{
	bool chooses = size >= sizeof(*asked);
	struct xs_rule *rule;
	u32 slot;

	if (size < offsetof(struct xs_asked, more))
		return -EINVAL;
	slot = chooses ? asked->number : asked->number - XS_FIRST_INTERFACE;
	if (chooses)
		rule = slot < XS_SWITCHES ? READ_ONCE(xs_switches[slot]) : NULL;
	else
		rule = xs_ports && slot < XS_PORTS ? READ_ONCE(xs_ports[slot]) : NULL;
	if (!rule || rule->fault)
		return -1;
	if (chooses)
		return xs_way(rule, asked);
	if ((event != XS_ADMITS && event != XS_STAMPS) || rule->program.entries[event] == XC_NO_ENTRY)
		return -1;
	return xs_answer(rule, event, asked->told, XS_TOLD);
}

const struct bpf_func_proto xs_bpf_ask_proto = {
	.func = xs_bpf_ask,
	.gpl_only = true,
	.ret_type = RET_INTEGER,
	.arg1_type = ARG_ANYTHING,
	.arg2_type = ARG_PTR_TO_MEM | MEM_RDONLY,
	.arg3_type = ARG_MEM_SIZE,
};

/* Rules of switches: whoever has the file adds them, and with it they go */
static long xs_add(struct file *file, const struct xs_add __user *from)
{
	struct xs_given *given;
	struct xs_rule *rule;
	struct xs_add added;
	u32 number;

	if (copy_from_user(&added, from, sizeof(added)))
		return -EFAULT;
	if (added.size < sizeof(*given) || added.size > XS_MOST_SIZE)
		return -EINVAL;
	for (number = 0; number < XS_SWITCHES && xs_switches[number]; number++)
		;
	if (number == XS_SWITCHES)
		return -ENOSPC;
	given = vmemdup_user(u64_to_user_ptr(added.given), added.size);
	if (IS_ERR(given))
		return PTR_ERR(given);
	rule = given->entries[XS_CHOOSES] != XC_NO_ENTRY ? xs_new(given, added.size) : ERR_PTR(-EINVAL);
	kvfree(given);
	if (IS_ERR(rule))
		return PTR_ERR(rule);
	xs_owners[number] = file;
	WRITE_ONCE(xs_switches[number], rule);
	return number;
}

static long xs_read(struct file *file, const struct xs_read __user *from)
{
	struct xs_stats stats;
	struct xs_read wanted;

	if (copy_from_user(&wanted, from, sizeof(wanted)))
		return -EFAULT;
	if (wanted.number >= XS_SWITCHES || !xs_switches[wanted.number] || xs_owners[wanted.number] != file)
		return -ENOENT;
	xs_stats_of(xs_switches[wanted.number], &stats);
	return copy_to_user(u64_to_user_ptr(wanted.stats), &stats, sizeof(stats)) ? -EFAULT : 0;
}

static long xs_ioctl(struct file *file, unsigned int command, unsigned long argument)
{
	void __user *from = (void __user *)argument;
	long result = -ENOTTY;

	mutex_lock(&xs_lock);
	if (command == XS_ADD)
		result = xs_add(file, from);
	else if (command == XS_READ)
		result = xs_read(file, from);
	mutex_unlock(&xs_lock);
	return result;
}

static int xs_release(struct inode *inode, struct file *file)
{
	struct xs_rule *rule;
	u32 number;

	mutex_lock(&xs_lock);
	for (number = 0; number < XS_SWITCHES; number++) {
		rule = xs_owners[number] == file ? xs_switches[number] : NULL;
		if (!rule)
			continue;
		WRITE_ONCE(xs_switches[number], NULL);
		xs_owners[number] = NULL;
		synchronize_rcu();
		xs_put(rule);
	}
	mutex_unlock(&xs_lock);
	return 0;
}

static const struct file_operations xs_operations = {
	.owner = THIS_MODULE,
	.release = xs_release,
	.unlocked_ioctl = xs_ioctl,
};

long xs_open(void)
{
	return anon_inode_getfd("[xoff-rules]", &xs_operations, NULL, O_RDWR | O_CLOEXEC);
}

void xs_stats_of(const struct xs_rule *rule, struct xs_stats *stats)
{
	*stats = (struct xs_stats) {
		.asked = rule->asked, .fault = rule->fault, .fault_at = rule->fault_at, .fault_ns = rule->fault_ns,
	};
	stats->shown = xc_show(&rule->program, rule->frame, ktime_get_ns(), stats->state);
}
