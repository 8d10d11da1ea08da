// SPDX-License-Identifier: GPL-2.0
/*
 * What the devices for flows have in common, see xoff_flow.h.
 */
#include <linux/file.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/udp.h>
#include <linux/vmalloc.h>
#include <net/udp.h>
#include "xoff_flow.h"

#define XF_WINDOW_NS 10000000

/* Have the memory of counters, which is the same in the processes that look at it, for as long as the file is open */
long xf_map(struct xf_counters *counters, u64 address, u32 size)
{
	u32 many = size >> PAGE_SHIFT;
	int found;

	if (!size || size % PAGE_SIZE || address % PAGE_SIZE || many > 65536)
		return size ? -EINVAL : 0;
	counters->pages = kvcalloc(many, sizeof(*counters->pages), GFP_KERNEL);
	if (!counters->pages)
		return -ENOMEM;
	found = pin_user_pages_fast(address, many, FOLL_WRITE | FOLL_LONGTERM, counters->pages);
	counters->pages_count = max(found, 0);
	if (found != many)
		return found < 0 ? found : -EFAULT;
	counters->words = vmap(counters->pages, many, VM_MAP, PAGE_KERNEL);
	return counters->words ? 0 : -ENOMEM;
}

void xf_unmap(struct xf_counters *counters)
{
	vunmap(counters->words);
	if (counters->pages_count)
		unpin_user_pages(counters->pages, counters->pages_count);
	kvfree(counters->pages);
}

bool xf_has(const struct xf_counters *counters, u32 place)
{
	return place == XF_NOWHERE || (counters->words && place < counters->pages_count * (PAGE_SIZE / 8));
}

u64 *xf_counter(const struct xf_counters *counters, u32 place)
{
	return place == XF_NOWHERE ? NULL : counters->words + place;
}

/* Return a row that has room for one more; NULL without memory, and the old one is as it was */
void *xf_larger(void *from, u32 count, u32 *room, u32 least, size_t size)
{
	u32 wanted = max(least, 2 * *room);
	void *larger;

	if (count < *room)
		return from;
	larger = kvmalloc_array(wanted, size, GFP_ATOMIC);
	if (!larger)
		return NULL;
	if (count)
		memcpy(larger, from, count * size);
	kvfree(from);
	*room = wanted;
	return larger;
}

static bool xf_next_window(struct xf_arrivals *arrivals, s64 at_ns)
{
	if (!arrivals->first_ns)
		arrivals->first_ns = arrivals->window_end_ns = at_ns;
	while (at_ns >= arrivals->window_end_ns) {
		u64 *windows = xf_larger(arrivals->windows, arrivals->windows_count, &arrivals->windows_room, 64,
					 sizeof(*windows));

		if (!windows)
			return false;
		arrivals->windows = windows;
		arrivals->window_end_ns += XF_WINDOW_NS;
		arrivals->windows[arrivals->windows_count++] = 0;
	}
	return true;
}

/* Count a packet; false without memory */
bool xf_arrived(struct xf_arrivals *arrivals, u32 ecn, s64 at_ns)
{
	if (at_ns >= arrivals->window_end_ns && !xf_next_window(arrivals, at_ns))
		return false;
	arrivals->windows[arrivals->windows_count - 1]++;
	arrivals->packets++;
	arrivals->ecn[ecn]++;
	arrivals->last_ns = at_ns;
	if (arrivals->shown)
		WRITE_ONCE(*arrivals->shown, arrivals->packets);
	return true;
}

/* Answer a command */
long xf_give(const struct xf_ask *asked, const void *from, size_t size)
{
	if (asked->size < size)
		return -ENOSPC;
	return size && copy_to_user(u64_to_user_ptr(asked->room), from, size) ? -EFAULT : 0;
}

/* Return a UDP socket of the calling process that no one else serves, which is held from now on */
struct socket *xf_socket(int descriptor)
{
	int err = 0;
	struct socket *socket = sockfd_lookup(descriptor, &err);

	if (!socket)
		return ERR_PTR(err);
	if (socket->sk->sk_protocol != IPPROTO_UDP ||
	    (socket->sk->sk_family != AF_INET && socket->sk->sk_family != AF_INET6) ||
	    udp_sk(socket->sk)->encap_rcv || socket->sk->sk_user_data) {
		sockfd_put(socket);
		return ERR_PTR(-EINVAL);
	}
	return socket;
}

/* Take the datagrams of a socket at its entrance. `on_datagram` finds the owner by rcu_dereference_sk_user_data(), and
 * returns 0 for a datagram that it has taken, or 1 for one that the socket gets as before.
 */
void xf_take(struct socket *socket, void *owner, int (*on_datagram)(struct sock *sk, struct sk_buff *skb))
{
	local_bh_disable();
	rcu_assign_sk_user_data(socket->sk, owner);
	WRITE_ONCE(udp_sk(socket->sk)->encap_rcv, on_datagram);
	udp_sk(socket->sk)->encap_type = 1;
	local_bh_enable();
	udp_encap_enable();
	if (socket->sk->sk_family == AF_INET6)
		udpv6_encap_enable();
}

/* Leave the datagrams to the socket again, which is still held */
void xf_leave(struct socket *socket)
{
	local_bh_disable();
	WRITE_ONCE(udp_sk(socket->sk)->encap_rcv, NULL);
	udp_sk(socket->sk)->encap_type = 0;
	rcu_assign_sk_user_data(socket->sk, NULL);
	local_bh_enable();
}
