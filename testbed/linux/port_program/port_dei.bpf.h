/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Priorities by a tag's drop eligible indicator, a part of the port program that is an object of its own (DEI): a tag
 * whose DEI is set has a table of its own. It is included behind `classify`, in whose place it stands from there on.
 *
 * Stated in: testbed/switch/priority/classify.py.
 * Compared by: tests/lab/pfc/test_priorities.py.
 * The structure is mirrored by testbed/linux/port_program/__init__.py.
 */
#ifdef DEI
/* Of a port that frames come in by: the dot1p value by PCP. */
struct drop_eligible {
	__u8 dot1p[PRIORITIES];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SLOTS);
	__type(key, __u32);
	__type(value, struct drop_eligible);
} drop_eligible SEC(".maps");

/* Not inlined: port_out has little room left on its stack. */
static __noinline __u8 classify_with_dei(struct __sk_buff *skb, const struct port *port, const struct found *found)
{
	const struct drop_eligible *entry;
	__u32 word = skb->vlan_tci >> 8;

	if ((port->trust == TRUST_DSCP && found->version) || port->trust == TRUST_NONE || !found->tagged)
		return classify(port, found);
	if (!skb->vlan_present && bpf_skb_load_bytes(skb, 14, &word, 1))
		word = 0;
	if (!(word & 0x10))
		return classify(port, found);
	word = skb->ifindex - FIRST_INTERFACE;
	if (bpf_map_lookup_elem(&ports, &word) != port)	/* it leaves by another one than it came in by */
		word = skb->ingress_ifindex - FIRST_INTERFACE;
	entry = bpf_map_lookup_elem(&drop_eligible, &word);
	return (entry ? entry->dot1p[found->pcp & 7] : port->pcp_to_dot1p[found->pcp & 7]) & 7;
}

#define classify(port, found) classify_with_dei(skb, port, found)
#endif
