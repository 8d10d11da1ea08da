/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the devices for flows have in common: sockets whose datagrams the kernel takes, memory in which processes see how
 * far flows are, and the counts of what has arrived.
 */
#ifndef __XOFF_FLOW_H
#define __XOFF_FLOW_H

#include <linux/net.h>
#include <linux/skbuff.h>
#include <linux/types.h>
#include <net/sock.h>

#define XF_NEVER ((s64)(~0ULL >> 1))
#define XF_NOWHERE (~0u)		/* in place of a place in the counters */

/* What a command is about, by its number, and room for the answer */
struct xf_ask {
	u32 number, size;
	u64 room;
};

/* Memory that processes look at, words of eight octets */
struct xf_counters {
	struct page **pages;
	u32 pages_count;
	u64 *words;
};

/* What has arrived of a flow, in all and in each window from the first arrival on */
struct xf_arrivals {
	u64 packets, ecn[4];
	s64 first_ns, last_ns, window_end_ns;
	u64 *windows;
	u32 windows_count, windows_room;
	u64 *shown;			/* the packets, in the counters, or NULL */
};

long xf_map(struct xf_counters *counters, u64 address, u32 size);
void xf_unmap(struct xf_counters *counters);
bool xf_has(const struct xf_counters *counters, u32 place);
u64 *xf_counter(const struct xf_counters *counters, u32 place);

bool xf_arrived(struct xf_arrivals *arrivals, u32 ecn, s64 at_ns);

void *xf_larger(void *from, u32 count, u32 *room, u32 least, size_t size);
long xf_give(const struct xf_ask *asked, const void *from, size_t size);

struct socket *xf_socket(int descriptor);
void xf_take(struct socket *socket, void *owner, int (*on_datagram)(struct sock *sk, struct sk_buff *skb));
void xf_leave(struct socket *socket);

#endif
