// SPDX-License-Identifier: GPL-2.0
/*
 * What a lab and the program that started it have in common: read-only disks, and a device for
 * frames in both directions.
 *
 * All of it is synchronous. A disk of files that the host maps answers within the call, and what the
 * lab writes is written when the call returns. So none of it takes time that the host decides.
 */
#include <linux/blkdev.h>
#include <linux/fs.h>
#include <linux/init.h>
#include <linux/interrupt.h>
#include <linux/miscdevice.h>
#include <linux/poll.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <irq_kern.h>
#include <os.h>
#include "xoff.h"

struct xoff_disk {
	const char *name;
	const char *variable;
	const char *content;
	unsigned long long size;
	struct gendisk *disk;
};

static struct xoff_disk xoff_disks[] = {
	{ .name = "xoffroot", .variable = "XOFF_ROOT" },
	{ .name = "xoffcode", .variable = "XOFF_CODE" },
	{ .name = "xoffjob", .variable = "XOFF_JOB" },
};

static void xoff_disk_submit(struct bio *bio)
{
	struct xoff_disk *disk = bio->bi_bdev->bd_disk->private_data;
	struct bvec_iter iter;
	struct bio_vec part;

	if (bio_op(bio) != REQ_OP_READ) {
		bio_io_error(bio);
		return;
	}
	bio_for_each_segment(part, bio, iter) {
		unsigned long long begin = (unsigned long long)iter.bi_sector << SECTOR_SHIFT;
		unsigned int have = begin < disk->size ? min_t(u64, part.bv_len, disk->size - begin) : 0;
		char *to = bvec_kmap_local(&part);

		memcpy(to, disk->content + begin, have);
		memset(to + have, 0, part.bv_len - have);
		kunmap_local(to);
	}
	bio_endio(bio);
}

static const struct block_device_operations xoff_disk_operations = {
	.owner = THIS_MODULE,
	.submit_bio = xoff_disk_submit,
};

static int __init xoff_disk_add(struct xoff_disk *disk)
{
	struct queue_limits limits = {
		.logical_block_size = 512,
		.physical_block_size = PAGE_SIZE,
		.max_hw_sectors = 2048,
		.features = BLK_FEAT_SYNCHRONOUS,
	};
	int fd = xoff_descriptor(disk->variable), err;

	if (fd < 0)
		return 0;
	disk->content = xoff_map(fd, &disk->size);
	if (!disk->content) {
		pr_err("%s: the host cannot map descriptor %d\n", disk->name, fd);
		return -ENXIO;
	}
	disk->disk = blk_alloc_disk(&limits, NUMA_NO_NODE);
	if (IS_ERR(disk->disk))
		return PTR_ERR(disk->disk);
	strscpy(disk->disk->disk_name, disk->name, DISK_NAME_LEN);
	disk->disk->fops = &xoff_disk_operations;
	disk->disk->private_data = disk;
	set_capacity(disk->disk, DIV_ROUND_UP(disk->size, PAGE_SIZE) << (PAGE_SHIFT - SECTOR_SHIFT));
	set_disk_ro(disk->disk, 1);
	err = add_disk(disk->disk);
	if (err)
		put_disk(disk->disk);
	return err;
}

/* /dev/xoff: written frames go to the program that started the lab, its commands are read here */

#define XOFF_PIECE 65536

static int xoff_out = -1, xoff_commands = -1;
static char *xoff_buffer;
static bool xoff_has_commands;
static DECLARE_WAIT_QUEUE_HEAD(xoff_wait);
static DEFINE_MUTEX(xoff_lock);
static atomic_t xoff_opened = ATOMIC_INIT(0);

static ssize_t xoff_dev_write(struct file *file, const char __user *from, size_t length, loff_t *at)
{
	size_t done = 0;
	int err = 0;

	mutex_lock(&xoff_lock);
	while (done < length && !err) {
		size_t piece = min_t(size_t, length - done, XOFF_PIECE);

		if (copy_from_user(xoff_buffer, from + done, piece))
			err = -EFAULT;
		else
			err = xoff_write_all(xoff_out, xoff_buffer, piece);
		if (err > 0) {
			done += piece;
			err = 0;
		}
	}
	mutex_unlock(&xoff_lock);
	return done ?: err;
}

/* The lab's time stands still while a read without O_NONBLOCK waits. */
static ssize_t xoff_dev_read(struct file *file, char __user *to, size_t length, loff_t *at)
{
	int n;

	if (xoff_commands < 0)
		return 0;
	mutex_lock(&xoff_lock);
	xoff_has_commands = false;
	n = xoff_read(xoff_commands, xoff_buffer, min_t(size_t, length, XOFF_PIECE),
		      !(file->f_flags & O_NONBLOCK));
	if (n > 0 && copy_to_user(to, xoff_buffer, n))
		n = -EFAULT;
	mutex_unlock(&xoff_lock);
	return n;
}

static __poll_t xoff_dev_poll(struct file *file, struct poll_table_struct *table)
{
	poll_wait(file, &xoff_wait, table);
	return EPOLLOUT | (READ_ONCE(xoff_has_commands) ? EPOLLIN : 0);
}

static irqreturn_t xoff_interrupt(int irq, void *unused)
{
	WRITE_ONCE(xoff_has_commands, true);
	wake_up_interruptible(&xoff_wait);
	return IRQ_HANDLED;
}

static long xoff_dev_ioctl(struct file *file, unsigned int command, unsigned long argument)
{
	return command == _IO('x', 1) ? xoff_seal() : -ENOTTY;
}

/* The lab's supervisor has it open from before the job begins: whoever finds another node of it gets nothing. */
static int xoff_dev_open(struct inode *inode, struct file *file)
{
	return atomic_cmpxchg(&xoff_opened, 0, 1) ? -EBUSY : 0;
}

static int xoff_dev_release(struct inode *inode, struct file *file)
{
	atomic_set(&xoff_opened, 0);
	return 0;
}

static const struct file_operations xoff_dev_operations = {
	.owner = THIS_MODULE,
	.open = xoff_dev_open,
	.release = xoff_dev_release,
	.read = xoff_dev_read,
	.write = xoff_dev_write,
	.poll = xoff_dev_poll,
	.unlocked_ioctl = xoff_dev_ioctl,
	.llseek = noop_llseek,
};

static struct miscdevice xoff_dev = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "xoff",
	.fops = &xoff_dev_operations,
	.mode = 0600,
};

static int __init xoff_init(void)
{
	int i, err;

	for (i = 0; i < ARRAY_SIZE(xoff_disks); i++) {
		err = xoff_disk_add(&xoff_disks[i]);
		if (err)
			return err;
	}
	xoff_out = xoff_descriptor("XOFF_OUT");
	xoff_commands = xoff_descriptor("XOFF_COMMANDS");
	if (xoff_out < 0)
		return 0;
	xoff_buffer = kmalloc(XOFF_PIECE, GFP_KERNEL);
	if (!xoff_buffer)
		return -ENOMEM;
	if (xoff_commands >= 0) {
		xoff_set_nonblocking(xoff_commands);
		err = um_request_irq(UM_IRQ_ALLOC, xoff_commands, IRQ_READ, xoff_interrupt,
				     IRQF_SHARED, "xoff", &xoff_dev);
		if (err < 0)
			return err;
	}
	return misc_register(&xoff_dev);
}
device_initcall(xoff_init);
