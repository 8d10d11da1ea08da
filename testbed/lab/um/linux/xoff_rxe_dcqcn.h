/* SPDX-License-Identifier: GPL-2.0 */
/*
 * DCQCN for soft-RoCE: what xoff_rxe_dcqcn.c does, and where rdma_rxe calls it. Without a marked packet, a CNP or a
 * queue pair that was slowed down, each of these is one comparison.
 */
#ifndef __XOFF_RXE_DCQCN_H
#define __XOFF_RXE_DCQCN_H

#include <linux/hrtimer.h>
#include "../../../../arch/um/drivers/xoff_roce.h"

#define XOFF_RXE_CNP 0x81	/* the opcode of congestion notification packets */

struct rxe_qp;
struct rxe_dev;
struct rxe_pkt_info;
struct rxe_task;
struct sk_buff;

/* Of a device: the attributes in its folder cc_params */
struct xoff_rxe_settings {
	u64 dscps;	/* a bit for each DSCP whose packets have DCQCN */
	u64 cnp_ns, cnp_dscp;
	struct xr_dcqcn dcqcn;
};

/* Of a queue pair that has had a CNP */
struct xoff_rxe_slowed {
	spinlock_t lock;
	struct hrtimer timer;
	struct rxe_qp *qp;
	s64 next_ns;
	bool send_waits, recv_waits;
	struct xr_rate rate;
};

void xoff_rxe_init(struct rxe_dev *rxe);
int xoff_rxe_attributes(struct rxe_dev *rxe);
bool xoff_rxe_congestion(struct rxe_pkt_info *pkt, struct sk_buff *skb);
u8 xoff_rxe_tos(struct rxe_pkt_info *pkt, u8 tos);
bool xoff_rxe_waits(struct rxe_qp *qp, struct rxe_task *task);
void xoff_rxe_sent(struct rxe_qp *qp, struct rxe_pkt_info *pkt);
void xoff_rxe_forget(struct rxe_qp *qp);

#endif
