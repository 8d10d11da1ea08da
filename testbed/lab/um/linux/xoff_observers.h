/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Observers: processes that look at a network and change nothing of it, see kernel/sched/xoff_observers.c.
 */
#ifndef _LINUX_XOFF_OBSERVERS_H
#define _LINUX_XOFF_OBSERVERS_H

#include <linux/preempt.h>
#include <linux/sched.h>

#define PR_XOFF_OBSERVES 0x786f0001	/* prctl(): 1 begins, 0 ends; the answer is what was before */
#define XOFF_OBSERVERS_PIDS 1024	/* the last ones of a namespace: others get the ones that they would have had */

extern const struct sched_class xoff_observer_class;
extern struct task_struct *xoff_held;

/* What the running process does now takes no time, and draws nothing that another one would have drawn. */
static inline bool xoff_observes(void)
{
	return unlikely(current->flags & PF_OBSERVES) && in_task();
}

static inline bool xoff_is_observer(const struct task_struct *p)
{
	return unlikely(p->sched_class == &xoff_observer_class);
}

struct task_struct *xoff_next(struct task_struct *next);
long xoff_set_observes(bool observes);
bool xoff_observers_wait(void);
void xoff_run_observers(void);
void xoff_call_rcu(struct rcu_head *head);
void xoff_reclaim(void);

#endif
