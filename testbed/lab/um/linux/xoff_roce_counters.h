/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The counters of a queue pair; made by tools/roce_counters.py of the list in Python, which says what each of them is.
 *
 * Stated in: testbed/roce/counters.py.
 * Compared by: tests/unit/roce/test_counters.py, tests/lab/roce/test_roce_in_kernel.py.
 */
#ifndef __XOFF_ROCE_COUNTERS_H
#define __XOFF_ROCE_COUNTERS_H

struct xr_counters {
	u64 sent_packets;
	u64 sent_octets;
	u64 fresh;
	u64 retransmitted;
	u64 went_back;
	u64 timeouts;
	u64 sequence_naks;
	u64 rnr_naks;
	u64 completed;
	u64 received_packets;
	u64 received_octets;
	u64 marked;
	u64 trimmed;
	u64 cnps_sent;
	u64 cnps_received;
	u64 duplicates;
	u64 out_of_order;
	u64 kept;
	u64 reordered;
	u64 extent;
	u64 messages;
	u64 received;
	u64 incomplete;
	u64 dropped;
	u64 no_receive;
	u64 too_long;
	u64 no_access;
	u64 other_keys;
	u64 limit_events;
};

#endif
