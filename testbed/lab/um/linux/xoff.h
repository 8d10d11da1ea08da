/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __UM_XOFF_H
#define __UM_XOFF_H

int xoff_descriptor(const char *name);
void *xoff_map(int fd, unsigned long long *size);
int xoff_write_all(int fd, const char *data, int length);
int xoff_read(int fd, char *data, int length, int wait);
int xoff_set_nonblocking(int fd);
int xoff_seal(void);
int xoff_line_register(void);
struct file;
long xoff_line_ioctl(struct file *file, unsigned int command, unsigned long argument);
void xoff_line_closed(struct file *file);

#endif
