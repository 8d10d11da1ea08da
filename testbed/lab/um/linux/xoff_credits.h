/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Credits at queues: what sch_plug and the reception of frames ask of arch/um/drivers/xoff_credit_kern.c.
 */
#ifndef _LINUX_XOFF_CREDITS_H
#define _LINUX_XOFF_CREDITS_H

#include <linux/skbuff.h>

struct Qdisc;
struct xc_gate;

/* Has a port of this kernel credits? */
extern bool xoff_credits_on;

/* Return a new file by which a network has credits (xoff_credit_device.h) */
long xoff_credits_open(void);
/* May the frame at the head of a queue leave, and note that it does */
bool xoff_gate_opens(struct xc_gate *gate, const struct sk_buff *skb);
void xoff_gate_passed(struct xc_gate *gate, const struct sk_buff *skb);
/* Is this MAC control frame, of which the Ethernet header has been pulled, about credits? Then it has been read. */
bool xoff_credits_receive(const struct sk_buff *skb);
/* Give a plug a gate, or take it away */
void xoff_plug_gate(struct Qdisc *plug, struct xc_gate *gate);

#endif
