// SPDX-License-Identifier: GPL-2.0
/*
 * The scheduling class of observers: processes of the lab that look at a network, and must not change what happens in
 * it. Their system calls take no time (arch/um/kernel/skas/syscall.c), so an observer begins and ends at one moment of
 * the lab. This class sees to it that whoever was interrupted goes on as if nothing had been.
 *
 * An observer runs before all others: when a process returns to its program, when the CPU is idle, and when another one
 * would be switched to. None of these is taken off the CPU as far as its own class knows: it is held, and is switched
 * to when no observer is left. So no class counts anything, moves anybody or chooses anew. The queue of observers is
 * no part of the run queue, and no class is asked about it.
 *
 * Children of a process that observes belong to this class for good. The process itself stays in its own class.
 */
#include <linux/bottom_half.h>
#include <linux/xoff_observers.h>

static LIST_HEAD(observers);

/* The process that goes on when all observers sleep; NULL while none of them runs */
struct task_struct *xoff_held;

bool xoff_observers_wait(void)
{
	return !list_empty(&observers);
}

/* Return the first observer, if there is one, and hold the one that would be switched to. */
struct task_struct *xoff_next(struct task_struct *next)
{
	struct task_struct *first = list_first_entry_or_null(&observers, struct task_struct, rt.run_list);

	xoff_held = first ? next : NULL;
	return first ?: next;
}

/*
 * RCU callbacks of who observes. The thread that runs those of others would be woken for them at the next switch, and
 * then somebody else might be chosen. There is one CPU and no switch within a reader, so nobody reads while an observer
 * returns to its program, which is when they are called.
 */
static struct rcu_head *callbacks, **callbacks_end = &callbacks;

void xoff_call_rcu(struct rcu_head *head)
{
	unsigned long flags;

	local_irq_save(flags);
	*callbacks_end = head;
	callbacks_end = &head->next;
	local_irq_restore(flags);
}

void xoff_reclaim(void)
{
	unsigned long flags;
	struct rcu_head *head, *next;

	local_irq_save(flags);
	head = callbacks;
	callbacks = NULL;
	callbacks_end = &callbacks;
	local_irq_restore(flags);
	if (!head)
		return;
	local_bh_disable();
	for (; head; head = next) {
		next = head->next;
		head->func(head);
	}
	/* what others have left to ksoftirqd stays there */
	local_irq_save(flags);
	_local_bh_enable();
	local_irq_restore(flags);
}

long xoff_set_observes(bool observes)
{
	bool before = current->flags & PF_OBSERVES;

	if (before)
		xoff_reclaim();
	if (!observes && xoff_is_observer(current))
		return -EPERM;
	if (observes)
		current->flags |= PF_OBSERVES;
	else
		current->flags &= ~PF_OBSERVES;
	return before;
}

static void enqueue_task_observer(struct rq *rq, struct task_struct *p, int flags)
{
	list_add_tail(&p->rt.run_list, &observers);
}

static bool dequeue_task_observer(struct rq *rq, struct task_struct *p, int flags)
{
	list_del_init(&p->rt.run_list);
	return true;
}

static void yield_task_observer(struct rq *rq)
{
	list_move_tail(&rq->curr->rt.run_list, &observers);
}

static void wakeup_preempt_observer(struct rq *rq, struct task_struct *p, int flags)
{
}

static struct task_struct *pick_task_observer(struct rq *rq, struct rq_flags *rf)
{
	return NULL;
}

static void put_prev_task_observer(struct rq *rq, struct task_struct *p, struct task_struct *next)
{
}

static void set_next_task_observer(struct rq *rq, struct task_struct *p, bool first)
{
}

static int select_task_rq_observer(struct task_struct *p, int cpu, int flags)
{
	return cpu;
}

static void task_tick_observer(struct rq *rq, struct task_struct *p, int queued)
{
}

static void prio_changed_observer(struct rq *rq, struct task_struct *p, u64 before)
{
}

static void update_curr_observer(struct rq *rq)
{
}

/* Not among the classes that are asked in turn, which are in a section of their own */
const struct sched_class xoff_observer_class = {
	.enqueue_task = enqueue_task_observer,
	.dequeue_task = dequeue_task_observer,
	.yield_task = yield_task_observer,
	.wakeup_preempt = wakeup_preempt_observer,
	.pick_task = pick_task_observer,
	.put_prev_task = put_prev_task_observer,
	.set_next_task = set_next_task_observer,
	.select_task_rq = select_task_rq_observer,
	.set_cpus_allowed = set_cpus_allowed_common,
	.task_tick = task_tick_observer,
	.prio_changed = prio_changed_observer,
	.update_curr = update_curr_observer,
};
