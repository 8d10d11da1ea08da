// SPDX-License-Identifier: GPL-2.0
/*
 * What programs with verbs need in the lab. The library of xoff_verbs_library.c is the file
 * /sys/kernel/xoff_verbs_library: it is built with the kernel, and so is wherever the kernel is. And there is a PCI
 * bus without devices: perftest looks there for the kind of its device, and gives up if there is no bus.
 */
#include <linux/device/bus.h>
#include <linux/init.h>
#include <linux/kobject.h>
#include <linux/sysfs.h>

asm(".pushsection .rodata\n"
    "xoff_verbs_begin:\n"
    ".incbin \"arch/um/drivers/xoff_verbs_library.so\"\n"
    "xoff_verbs_end:\n"
    ".popsection\n");
extern char xoff_verbs_begin[], xoff_verbs_end[];

static struct bin_attribute library = {
	.attr = { .name = "xoff_verbs_library", .mode = 0444 },
	.read = sysfs_bin_attr_simple_read,
};

static const struct bus_type empty_bus = { .name = "pci" };

static int __init xoff_verbs_init(void)
{
	int err = bus_register(&empty_bus);

	if (err)
		return err;
	library.private = xoff_verbs_begin;
	library.size = xoff_verbs_end - xoff_verbs_begin;
	return sysfs_create_bin_file(kernel_kobj, &library);
}
late_initcall(xoff_verbs_init);
