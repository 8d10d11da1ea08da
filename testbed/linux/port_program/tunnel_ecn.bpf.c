// SPDX-License-Identifier: GPL-2.0-only
/*
 * ECN in tunnels of IPv6 (RFC 6040): what Linux's SRv6 leaves out. It runs beside the port program, after it, at the ports
 * of nodes that ask for it, and costs others nothing.
 *
 * ecn_out (tcx egress)   the outer header of a packet in a tunnel gets the inner one's ECN field, if it has none (the normal
 *                        mode of section 4.1). Linux copies that of IPv6 packets, and not that of IPv4.
 * ecn_in  (tcx ingress)  what the network wrote into the outer header goes into the inner one (section 4.2): Linux forgets
 *                        it. It is written before Linux takes the packet out; where the tunnel goes on it is written again.
 *
 * A tunnel is an IPv6 header, with any hop-by-hop, destination and routing headers, before IPv4 or IPv6.
 *
 * Compared by: tests/lab/wan/test_wan_ecn.py. The structure is mirrored by testbed/linux/port_program/tunnel_ecn.py.
 */
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define SLOTS 2048
#define FIRST_INTERFACE 4096
#define ETHERTYPE_IPV6 0x86dd
#define ETHERNET 14
#define NEXT (-1) /* to the next program, or to the qdisc */
#define DROP 2
#define EXTENSIONS 4

enum ecn { NOT_ECT, ECT_1, ECT_0, CE };
enum header { HOP_BY_HOP = 0, IN_IPV4 = 4, IN_IPV6 = 41, ROUTING = 43, DESTINATION = 60 };

struct tunnel_ecn {
	__u64 copied_out;	/* outer headers that got the inner one's field */
	__u64 copied_in;	/* inner headers that got the outer one's */
	__u64 dropped;		/* CE outside, and the inner packet is not ECN-capable */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SLOTS);
	__type(key, __u32);
	__type(value, struct tunnel_ecn);
} tunnel_ecns SEC(".maps");

struct headers {
	__u32 inner;		/* where the inner header begins */
	__u8 version;		/* of IP inside; 0: this is no tunnel */
	__u8 outer_octet;	/* the second one of the outer header, whose upper half ends with the ECN field */
	__u8 octets[2];		/* the first ones of the inner header */
};

static __always_inline __u8 ecn_of(const struct headers *of)
{
	return of->version == 4 ? of->octets[1] & 3 : of->octets[1] >> 4 & 3;
}

/* Find the inner header of a packet in a tunnel. */
static __always_inline int look_into(struct __sk_buff *skb, struct headers *to)
{
	__u8 outer[8], extension[2], next;
	__u32 at = ETHERNET + 40;

	to->version = 0;
	if (skb->protocol != bpf_htons(ETHERTYPE_IPV6) || bpf_skb_load_bytes(skb, ETHERNET, outer, sizeof(outer)))
		return 0;
	to->outer_octet = outer[1];
	next = outer[6];
	for (int count = 0; count < EXTENSIONS; count++) {
		if (next != HOP_BY_HOP && next != ROUTING && next != DESTINATION)
			break;
		if (bpf_skb_load_bytes(skb, at, extension, sizeof(extension)))
			return 0;
		next = extension[0];
		at += (extension[1] + 1) * 8;
	}
	if ((next != IN_IPV4 && next != IN_IPV6) || bpf_skb_load_bytes(skb, at, to->octets, sizeof(to->octets)))
		return 0;
	to->version = next == IN_IPV4 ? 4 : 6;
	to->inner = at;
	return to->octets[0] >> 4 == to->version;
}

static __always_inline struct tunnel_ecn *counters_of(struct __sk_buff *skb)
{
	__u32 slot = skb->ifindex - FIRST_INTERFACE;

	return bpf_map_lookup_elem(&tunnel_ecns, &slot);
}

SEC("tc")
int ecn_out(struct __sk_buff *skb)
{
	struct headers found;
	struct tunnel_ecn *counters;
	__u8 octet;

	if (!look_into(skb, &found) || found.outer_octet >> 4 & 3 || !ecn_of(&found))
		return NEXT;
	octet = found.outer_octet | ecn_of(&found) << 4;
	if (bpf_skb_store_bytes(skb, ETHERNET + 1, &octet, 1, BPF_F_RECOMPUTE_CSUM))
		return NEXT;
	counters = counters_of(skb);
	if (counters)
		counters->copied_out++;
	return NEXT;
}

SEC("tc")
int ecn_in(struct __sk_buff *skb)
{
	struct headers found;
	struct tunnel_ecn *counters;
	__u8 outer, inner, octet;

	if (!look_into(skb, &found))
		return NEXT;
	outer = found.outer_octet >> 4 & 3;
	inner = ecn_of(&found);
	/* The table of section 4.2: CE goes inside, and so does ECT(1) where ECT(0) is; all else stays as it is inside. */
	if (!((outer == CE && inner != CE) || (outer == ECT_1 && inner == ECT_0)))
		return NEXT;
	counters = counters_of(skb);
	if (inner == NOT_ECT) {
		if (counters)
			counters->dropped++;
		return DROP;
	}
	if (found.version == 4) {
		octet = (found.octets[1] & ~3) | outer;
		if (bpf_l3_csum_replace(skb, found.inner + 10, bpf_htons(found.octets[0] << 8 | found.octets[1]),
					bpf_htons(found.octets[0] << 8 | octet), 2) ||
		    bpf_skb_store_bytes(skb, found.inner + 1, &octet, 1, 0))
			return NEXT;
	} else {
		octet = (found.octets[1] & ~0x30) | outer << 4;
		if (bpf_skb_store_bytes(skb, found.inner + 1, &octet, 1, BPF_F_RECOMPUTE_CSUM))
			return NEXT;
	}
	if (counters)
		counters->copied_in++;
	return NEXT;
}

char LICENSE[] SEC("license") = "GPL";
