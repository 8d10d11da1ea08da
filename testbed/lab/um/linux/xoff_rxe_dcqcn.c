// SPDX-License-Identifier: GPL-2.0
/*
 * DCQCN for soft-RoCE. The notification point: a packet of data with CE brings a CNP, at most one in `cnp_ns` for a queue
 * pair. The reaction point: from its first CNP on a queue pair sends each packet at its time, by the rate of
 * xoff_roce_user.c, which is that of testbed/roce/rates/dcqcn.py. Packets of the chosen DSCPs are ECT(0).
 *
 * It is for reliable and unreliable connections. Datagrams have no far end of their own, and no rate.
 */
#include <linux/device.h>
#include <linux/ktime.h>
#include <linux/slab.h>
#include <linux/sysfs.h>
#include <net/dsfield.h>
#include <net/inet_ecn.h>

#include "rxe.h"
#include "rxe_loc.h"

#define CNP_RESERVED 16

static bool has_dcqcn(struct rxe_dev *rxe, u8 tos)
{
	return rxe->xoff.dscps >> (tos >> 2) & 1;
}

static bool is_connected(struct rxe_qp *qp)
{
	return qp_type(qp) == IB_QPT_RC || qp_type(qp) == IB_QPT_UC;
}

/* Packets of data, which are marked and paced; requests of reads are paced too */
static bool is_data(struct rxe_pkt_info *pkt)
{
	return pkt->mask & (RXE_REQ_MASK | RXE_PAYLOAD_MASK);
}

static void send_cnp(struct rxe_qp *qp)
{
	struct rxe_dev *rxe = to_rdev(qp->ibqp.device);
	struct rxe_av av = qp->pri_av;
	struct rxe_pkt_info cnp = {};
	struct sk_buff *skb;

	av.grh.traffic_class = rxe->xoff.cnp_dscp << 2;
	cnp.opcode = XOFF_RXE_CNP;
	cnp.paylen = rxe_opcode[XOFF_RXE_CNP].length + RXE_ICRC_SIZE;
	cnp.qp = qp;
	skb = rxe_init_packet(rxe, &av, cnp.paylen, &cnp);
	if (!skb)
		return;
	cnp.mask = rxe_opcode[XOFF_RXE_CNP].mask;
	bth_init(&cnp, XOFF_RXE_CNP, 0, 0, 0, IB_DEFAULT_PKEY_FULL, qp->attr.dest_qp_num, 0, 0);
	bth_set_becn(&cnp, 1);
	memset(cnp.hdr + RXE_BTH_BYTES, 0, CNP_RESERVED);
	if (rxe_prepare(&av, &cnp, skb)) {
		kfree_skb(skb);
		return;
	}
	if (!rxe_xmit_packet(qp, &cnp, skb))
		rxe_counter_inc(rxe, RXE_CNT_CNP_SENT);
}

static void on_mark(struct rxe_qp *qp)
{
	struct rxe_dev *rxe = to_rdev(qp->ibqp.device);
	s64 now_ns = ktime_get_ns();

	rxe_counter_inc(rxe, RXE_CNT_ECN_MARKED);
	if (qp->xoff_cnp_ns && now_ns - qp->xoff_cnp_ns < rxe->xoff.cnp_ns)
		return;
	qp->xoff_cnp_ns = now_ns;
	send_cnp(qp);
}

static enum hrtimer_restart its_time(struct hrtimer *timer)
{
	struct xoff_rxe_slowed *slowed = container_of(timer, struct xoff_rxe_slowed, timer);
	struct rxe_qp *qp = slowed->qp;

	if (!rxe_get(qp))
		return HRTIMER_NORESTART;
	if (slowed->send_waits)
		rxe_sched_task(&qp->send_task);
	if (slowed->recv_waits)
		rxe_sched_task(&qp->recv_task);
	slowed->send_waits = slowed->recv_waits = false;
	rxe_put(qp);
	return HRTIMER_NORESTART;
}

static void on_cnp(struct rxe_qp *qp)
{
	struct rxe_dev *rxe = to_rdev(qp->ibqp.device);
	struct xoff_rxe_slowed *slowed = qp->xoff_slowed;
	s64 now_ns = ktime_get_ns();

	if (!has_dcqcn(rxe, qp->pri_av.grh.traffic_class)) {
		rxe_counter_inc(rxe, RXE_CNT_CNP_IGNORED);
		return;
	}
	rxe_counter_inc(rxe, RXE_CNT_CNP_HANDLED);
	if (!slowed) {
		slowed = kzalloc(sizeof(*slowed), GFP_ATOMIC);
		if (!slowed)
			return;
		spin_lock_init(&slowed->lock);
		hrtimer_setup(&slowed->timer, its_time, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
		slowed->qp = qp;
		slowed->next_ns = now_ns;
		xr_dcqcn_start(&slowed->rate, &rxe->xoff.dcqcn);
		xr_rate_cnp(&slowed->rate, now_ns);
		qp->xoff_slowed = slowed;
		return;
	}
	spin_lock_bh(&slowed->lock);
	xr_rate_cnp(&slowed->rate, now_ns);
	spin_unlock_bh(&slowed->lock);
}

/* A packet that is intact has come to a queue pair. True if it was a CNP: these end here. */
bool xoff_rxe_congestion(struct rxe_pkt_info *pkt, struct sk_buff *skb)
{
	struct rxe_qp *qp = pkt->qp;
	u8 tos = skb->protocol == htons(ETH_P_IP) ? ip_hdr(skb)->tos : ipv6_get_dsfield(ipv6_hdr(skb));

	if (likely(pkt->opcode != XOFF_RXE_CNP)) {
		if (unlikely(INET_ECN_is_ce(tos)) && is_data(pkt) && is_connected(qp) && has_dcqcn(pkt->rxe, tos))
			on_mark(qp);
		return false;
	}
	on_cnp(qp);
	rxe_put(qp);
	kfree_skb(skb);
	ib_device_put(&pkt->rxe->ib_dev);
	return true;
}

/* The octet of IP's header for a packet that is to be sent: ECT(0), unless the program has set the field itself */
u8 xoff_rxe_tos(struct rxe_pkt_info *pkt, u8 tos)
{
	if (tos & INET_ECN_MASK || pkt->opcode == XOFF_RXE_CNP || !is_connected(pkt->qp) || !has_dcqcn(pkt->rxe, tos))
		return tos;
	return tos | INET_ECN_ECT_0;
}

/* True if the next packet of a queue pair that was slowed down has to wait: the task is woken at its time */
bool xoff_rxe_waits(struct rxe_qp *qp, struct rxe_task *task)
{
	struct xoff_rxe_slowed *slowed = qp->xoff_slowed;

	if (slowed->next_ns <= ktime_get_ns())
		return false;
	if (task == &qp->send_task)
		slowed->send_waits = true;
	else
		slowed->recv_waits = true;
	hrtimer_start(&slowed->timer, ns_to_ktime(slowed->next_ns), HRTIMER_MODE_ABS);
	return true;
}

/* A queue pair that was slowed down has sent a packet */
void xoff_rxe_sent(struct rxe_qp *qp, struct rxe_pkt_info *pkt)
{
	struct xoff_rxe_slowed *slowed = qp->xoff_slowed;
	u32 around = qp->pri_av.network_type == RXE_NETWORK_TYPE_IPV6 ? XR_WIRE_IPV6 : XR_WIRE;

	if (!is_data(pkt))
		return;
	spin_lock_bh(&slowed->lock);
	slowed->next_ns = xr_rate_next(&slowed->rate, slowed->next_ns, 1, pkt->paylen + around, ktime_get_ns());
	spin_unlock_bh(&slowed->lock);
}

/* A queue pair ends, or begins anew */
void xoff_rxe_forget(struct rxe_qp *qp)
{
	struct xoff_rxe_slowed *slowed = xchg(&qp->xoff_slowed, NULL);

	qp->xoff_cnp_ns = 0;
	if (!slowed)
		return;
	hrtimer_cancel(&slowed->timer);
	kfree(slowed);
}

/*
 * The attributes of a device in its folder cc_params, by the names of mlx5's driver: nanoseconds, bits and octets, and
 * parts of 1024. They hold for queue pairs that have not had a CNP yet.
 */
struct setting {
	struct device_attribute attribute;
	unsigned int place;
	u64 least, most;
};

static u64 *place_of(struct device *device, struct setting *setting)
{
	struct rxe_dev *rxe = rdma_device_to_drv_device(device, struct rxe_dev, ib_dev);

	return (void *)&rxe->xoff + setting->place;
}

static ssize_t setting_show(struct device *device, struct device_attribute *attribute, char *text)
{
	struct setting *setting = container_of(attribute, struct setting, attribute);
	u64 value = *place_of(device, setting);

	return sysfs_emit(text, setting->place ? "%llu\n" : "%#llx\n", value);
}

static ssize_t setting_store(struct device *device, struct device_attribute *attribute, const char *text, size_t length)
{
	struct setting *setting = container_of(attribute, struct setting, attribute);
	u64 value;
	int err = kstrtou64(text, 0, &value);

	if (err)
		return err;
	if (value < setting->least || value > setting->most)
		return -EINVAL;
	*place_of(device, setting) = value;
	return length;
}

#define SETTING(name_, member, least_, most_)								\
	static struct setting name_ = {									\
		.attribute = { .attr = { .name = #name_, .mode = 0644 }, .show = setting_show, .store = setting_store },\
		.place = offsetof(struct xoff_rxe_settings, member), .least = least_, .most = most_,		\
	}

#define LONGEST_NS 1000000000000ULL
#define FASTEST 10000000000000ULL
#define PARTS 1024

SETTING(ecn_dscps, dscps, 0, ~0ULL);
SETTING(np_cnp_dscp, cnp_dscp, 0, 63);
SETTING(np_min_time_between_cnps, cnp_ns, 0, LONGEST_NS);
SETTING(rp_max_rate, dcqcn.line_bps, 1, FASTEST);
SETTING(rp_min_rate, dcqcn.minimum_bps, 1, FASTEST);
SETTING(rp_ai_rate, dcqcn.additive_bps, 0, FASTEST);
SETTING(rp_hai_rate, dcqcn.hyper_bps, 0, FASTEST);
SETTING(rp_dce_tcp_g, dcqcn.gain, 1, PARTS - 1);
SETTING(rp_initial_alpha_value, dcqcn.alpha, 1, PARTS);
SETTING(rp_dce_tcp_rtt, dcqcn.alpha_ns, 1, LONGEST_NS);
SETTING(rp_time_reset, dcqcn.increase_ns, 1, LONGEST_NS);
SETTING(rp_rate_reduce_monitor_period, dcqcn.decrease_ns, 0, LONGEST_NS);
SETTING(rp_byte_reset, dcqcn.bytes, 0, FASTEST);
SETTING(rp_threshold, dcqcn.recovery, 1, 31);

static struct attribute *attributes[] = {
	&ecn_dscps.attribute.attr, &np_cnp_dscp.attribute.attr, &np_min_time_between_cnps.attribute.attr,
	&rp_max_rate.attribute.attr, &rp_min_rate.attribute.attr, &rp_ai_rate.attribute.attr,
	&rp_hai_rate.attribute.attr, &rp_dce_tcp_g.attribute.attr, &rp_initial_alpha_value.attribute.attr,
	&rp_dce_tcp_rtt.attribute.attr, &rp_time_reset.attribute.attr,
	&rp_rate_reduce_monitor_period.attribute.attr, &rp_byte_reset.attribute.attr, &rp_threshold.attribute.attr,
	NULL,
};

static const struct attribute_group group = { .name = "cc_params", .attrs = attributes };

/* The parameters of DCQCN's paper on a line of 100 Gb/s; no packets have it until somebody chooses DSCPs */
void xoff_rxe_init(struct rxe_dev *rxe)
{
	rxe->xoff = (struct xoff_rxe_settings) {
		.cnp_ns = 50000,
		.cnp_dscp = 48,
		.dcqcn = {
			.line_bps = 100000000000ULL, .minimum_bps = 40000000, .additive_bps = 40000000,
			.hyper_bps = 200000000, .gain = PARTS / 256, .alpha = PARTS, .alpha_ns = 55000,
			.increase_ns = 55000, .bytes = 10000000, .recovery = 5,
		},
	};
}

int xoff_rxe_attributes(struct rxe_dev *rxe)
{
	return sysfs_create_group(&rxe->ib_dev.dev.kobj, &group);
}
