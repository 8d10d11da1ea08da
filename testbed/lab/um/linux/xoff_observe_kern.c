// SPDX-License-Identifier: GPL-2.0
/*
 * /dev/xoff-observe: the clock of observers (kernel/sched/xoff_observers.c). A moment of the monotonic clock is written
 * to it, and from then on it is readable until it is read.
 *
 * A timer of the kernel would not do. Its interrupt would also end all sleeps of others that may end a little early,
 * which is what most sleeps may do.
 */
#include <linux/fs.h>
#include <linux/init.h>
#include <linux/ktime.h>
#include <linux/miscdevice.h>
#include <linux/poll.h>
#include <linux/slab.h>
#include <linux/time-internal.h>
#include <linux/uaccess.h>
#include "xoff.h"

struct xo_clock {
	struct time_travel_event event;
	wait_queue_head_t wait;
	bool has_come;
};

static void xo_come(struct time_travel_event *event)
{
	struct xo_clock *clock = container_of(event, struct xo_clock, event);

	clock->has_come = true;
	wake_up_interruptible(&clock->wait);
}

static int xo_open(struct inode *inode, struct file *file)
{
	struct xo_clock *clock = kzalloc(sizeof(*clock), GFP_KERNEL);

	if (!clock)
		return -ENOMEM;
	init_waitqueue_head(&clock->wait);
	clock->event.fn = xo_come;
	clock->event.observes = true;
	file->private_data = clock;
	return nonseekable_open(inode, file);
}

static int xo_release(struct inode *inode, struct file *file)
{
	struct xo_clock *clock = file->private_data;

	xoff_line_closed(file);
	time_travel_del_event(&clock->event);
	kfree(clock);
	return 0;
}

static ssize_t xo_write(struct file *file, const char __user *from, size_t length, loff_t *at)
{
	struct xo_clock *clock = file->private_data;
	s64 moment_ns;

	if (length != sizeof(moment_ns) || copy_from_user(&moment_ns, from, sizeof(moment_ns)))
		return -EINVAL;
	time_travel_del_event(&clock->event);
	moment_ns -= ktime_get_ns();
	clock->has_come = moment_ns <= 0;
	if (!clock->has_come)
		time_travel_add_event_rel(&clock->event, moment_ns);
	return length;
}

static ssize_t xo_read(struct file *file, char __user *to, size_t length, loff_t *at)
{
	struct xo_clock *clock = file->private_data;

	if (!clock->has_come)
		return -EAGAIN;
	clock->has_come = false;
	return 0;
}

static __poll_t xo_poll(struct file *file, struct poll_table_struct *table)
{
	struct xo_clock *clock = file->private_data;

	poll_wait(file, &clock->wait, table);
	return clock->has_come ? EPOLLIN | EPOLLRDNORM : 0;
}

static const struct file_operations xo_operations = {
	.owner = THIS_MODULE,
	.open = xo_open,
	.release = xo_release,
	.read = xo_read,
	.write = xo_write,
	.poll = xo_poll,
	.unlocked_ioctl = xoff_line_ioctl,	/* what cables with Link Layer Retry carry */
};

static struct miscdevice xo_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "xoff-observe",
	.mode = 0666,
	.fops = &xo_operations,
};

static int __init xo_init(void)
{
	return misc_register(&xo_device) ?: xoff_line_register();
}
device_initcall(xo_init);
