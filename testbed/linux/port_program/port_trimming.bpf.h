/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Trimming, a part of the port program that is an object of its own (TRIM): what the buffer refuses is cut, and goes
 * into another queue.
 *
 * port_out finds a frame without room and calls `trim`. What is left of the frame, the rest, is sent to the port once
 * more from the top, because the kernel takes a frame's length for its qdiscs before port_out sees it; its mark says
 * what it is. A rest is not trimmed again.
 *
 * Stated in: testbed/switch/trimming/cut.py.
 * Compared by: tests/lab/trimming/test_rests.py.
 * The structures are mirrored by testbed/linux/port_program/trimming_tables.py.
 */

/* The mark of a rest: magic, the slot that its frame came in by, its class; then the queue that its frame found full, and
 * the queue that it goes into. */
#define REST_MAGIC 0xC0000000u
#define REST_FULL 3

#define TRIMMED 7 /* of a group's dropped_frames: those that live on as rests; and the reason that an event of one has */
#define FULL_QUEUE 24 /* of what `recount` is told about a frame: the bits from which on its queue is */
#define TRIMMED_QUEUE 4 /* in that reason, the bits from which on the queue is that was full */
#define EXCEPTIONS 8 /* of one port */
#define COMPARED 10 /* words of `struct hashed` that an exception may look at: addresses, ports, protocol */
#define FRAGMENT 44
#define CHUNK 32
#define CHUNKS 300

/* Of an egress port, by the queue that was full. */
struct trimming {
	__u32 octets;			/* what a rest has at the most; 0: nothing is trimmed here */
	__u8 queues;			/* whose frames are trimmed */
	__u8 dscp;
	__u8 class;			/* UNCHANGED: the one that the port it came in by gives the new DSCP */
	__u8 queue;			/* UNCHANGED: the one of that class */
	__u64 exceptions;		/* of frames that come in here, how many entries of `exceptions` hold */
	__u64 frames[PRIORITIES];
	__u64 whole_octets[PRIORITIES];	/* before they were cut */
	__u64 sent_frames[PRIORITIES];
	__u64 sent_octets[PRIORITIES];
	__u64 dropped_frames[PRIORITIES];
	__u64 dropped_octets[PRIORITIES];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SLOTS);
	__type(key, __u32);
	__type(value, struct trimming);
} trimmings SEC(".maps");

/* Frames that come in by a port and are dropped rather than trimmed. */
struct exception {
	__u32 version;			/* of IP; 0: any */
	__u32 dscp;
	__u32 dscp_mask;
	__u32 unused;
	__u32 words[COMPARED];		/* as in `struct hashed` */
	__u32 masks[COMPARED];
	__u64 frames;
	__u64 octets;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SLOTS * EXCEPTIONS);
	__type(key, __u32);
	__type(value, struct exception);
} exceptions SEC(".maps");

static __always_inline struct trimming *trimming_of(__u32 slot)
{
	return bpf_map_lookup_elem(&trimmings, &slot);
}

/* Is this one of the frames that are never trimmed? The first entry that fits counts it. Global, as others below, so that
 * the verifier looks at it once. */
__noinline int is_exempt(struct __sk_buff *skb, __u32 slot, __u32 version, __u32 dscp)
{
	struct trimming *in = trimming_of(slot);
	struct hashed hashed;

	if (!in || !in->exceptions)
		return 0;
	read_hashed(skb, &hashed, 0);
	for (int number = 0; number < EXCEPTIONS; number++) {
		__u32 key = slot * EXCEPTIONS + number, other = 0;
		struct exception *entry;

		if (number >= in->exceptions)
			break;
		entry = bpf_map_lookup_elem(&exceptions, &key);
		if (!entry)
			break;
		for (int word = 0; word < COMPARED; word++)
			other |= (hashed.words[word] ^ entry->words[word]) & entry->masks[word];
		if (other || (entry->version && entry->version != version) ||
		    (dscp ^ entry->dscp) & entry->dscp_mask)
			continue;
		entry->frames++;
		entry->octets += skb->len + (skb->vlan_present ? 4 : 0);
		return 1;
	}
	return 0;
}

/* An IP packet inside a frame; with `end` as the end of what is around it. */
struct layer {
	__u32 at;
	__u32 end;
	__u32 payload;
	__u32 version;
	__u32 next;			/* the protocol of the payload */
};

/* Rule T2: is there a whole packet that is no fragment? */
static __noinline int read_layer(struct __sk_buff *skb, struct layer *layer)
{
	__u32 at = layer->at, length;
	__u8 head[20], routing[2];

	if (bpf_skb_load_bytes(skb, at, head, sizeof(head)))
		return 0;
	layer->version = head[0] >> 4;
	if (layer->version == 4) {
		length = head[2] << 8 | head[3];
		layer->payload = at + (head[0] & 15) * 4;
		layer->next = head[9];
		if ((head[0] & 15) < 5 || head[6] & 0x3F || head[7])
			return 0;
	} else if (layer->version == 6) {
		length = 40 + (head[4] << 8 | head[5]);
		layer->payload = at + 40;
		layer->next = head[6];
		if (layer->next == ROUTING) {
			if (bpf_skb_load_bytes(skb, at + 40, routing, 2))
				return 0;
			layer->payload += (routing[1] + 1) * 8;
			layer->next = routing[0];
		}
		if (layer->next == FRAGMENT)
			return 0;
	} else {
		return 0;
	}
	if (layer->payload > at + length || at + length > layer->end)
		return 0;
	layer->end = at + length;
	return 1;
}

static __always_inline void write_length(struct __sk_buff *skb, const struct layer *layer, __u32 to)
{
	__be16 old, new;

	if (layer->version == 4) {
		old = bpf_htons(layer->end - layer->at);
		new = bpf_htons(to - layer->at);
		bpf_l3_csum_replace(skb, layer->at + 10, old, new, 2);
		bpf_skb_store_bytes(skb, layer->at + 2, &new, 2, 0);
	} else {
		new = bpf_htons(to - layer->at - 40);
		bpf_skb_store_bytes(skb, layer->at + 4, &new, 2, 0);
	}
}

/* Octets that go, and what a sum over them loses so far. */
struct gone {
	struct __sk_buff *skb;
	__u32 at;
	__u32 end;
	__u32 sum;
};

static long add_chunk(__u32 number, struct gone *gone)
{
	__u32 octets[CHUNK / 4] = {}, length = gone->end - gone->at;

	if (gone->at >= gone->end)
		return 1;
	if (length >= CHUNK) {
		if (bpf_skb_load_bytes(gone->skb, gone->at, octets, CHUNK))
			return 1;
	} else if (length &= CHUNK - 1) {
		if (bpf_skb_load_bytes(gone->skb, gone->at, octets, length))
			return 1;
	}
	gone->sum = bpf_csum_diff(octets, CHUNK, NULL, 0, gone->sum);
	gone->at += CHUNK;
	return 0;
}

/* Rule T5 but for the octets that go: the length of UDP and the end of TCP. Returns where the checksum is; 0 if there is
 * none that is put right. */
static __noinline int shorten_transport(struct __sk_buff *skb, struct layer *layer, __u32 to)
{
	__u32 at = layer->payload, length = layer->end - at;
	__be16 old = bpf_htons(length), new = bpf_htons(to - at);
	__u8 head[20];

	if (layer->next == UDP) {
		if (to < at + 8 || bpf_skb_load_bytes(skb, at, head, 8) || head[4] != (__u8)(length >> 8) ||
		    head[5] != (__u8)length)
			return 0;
		bpf_skb_store_bytes(skb, at + 4, &new, 2, 0);
		if (!head[6] && !head[7])
			return 0;
		bpf_l4_csum_replace(skb, at + 6, old, new, BPF_F_MARK_MANGLED_0 | 2);
		return at + 6;
	}
	if (layer->next != TCP || length < 20 || bpf_skb_load_bytes(skb, at, head, 20) || (head[12] >> 4) < 5 ||
	    to < at + (head[12] >> 4) * 4)
		return 0;
	if (head[13] & 1) {
		old = bpf_htons(head[12] << 8 | head[13]);
		head[13] &= ~1;
		new = bpf_htons(head[12] << 8 | head[13]);
		bpf_l4_csum_replace(skb, at + 16, old, new, 2);
		bpf_skb_store_bytes(skb, at + 13, head + 13, 1, 0);
	}
	return at + 16;
}

/* The rest of rule T5: the checksum at this place loses what goes, and the pseudo header has another length. */
static __noinline int put_right(struct __sk_buff *skb, struct layer *layer, __u32 to, __u32 place)
{
	struct gone gone = { .skb = skb, .at = to, .end = layer->end };
	__u32 flags = layer->next == UDP ? BPF_F_MARK_MANGLED_0 : 0, sum;

	bpf_loop(CHUNKS, add_chunk, &gone, 0);
	sum = gone.sum;
	if (to - layer->payload & 1) {
		sum = (sum & 0xFFFF) + (sum >> 16);
		sum = (sum & 0xFFFF) + (sum >> 16);
		sum = (sum & 0xFF) << 8 | sum >> 8;
	}
	bpf_l4_csum_replace(skb, place, 0, sum, flags);
	bpf_l4_csum_replace(skb, place, bpf_htons(layer->end - layer->payload), bpf_htons(to - layer->payload),
			    flags | BPF_F_PSEUDO_HDR | 2);
	return 0;
}

/* Rules T2 to T5, for a frame with an IP packet at `ip`. Returns 1 if the frame may go as a rest. */
__noinline int cut(struct __sk_buff *skb, __u32 ip, __u32 to)
{
	struct layer layer = { .at = ip, .end = skb->len };
	int inside, place;

	if (!read_layer(skb, &layer))
		return 0;
	if (skb->len <= to)
		return 1;
	for (inside = 0; inside < 2; inside++) {
		if (layer.payload > to || layer.end <= to)
			return 0;
		write_length(skb, &layer, to);
		if (layer.next != IN_IPV4 && layer.next != IN_IPV6) {
			place = shorten_transport(skb, &layer, to);
			if (place)
				put_right(skb, &layer, to, place);
			break;
		}
		layer.at = layer.payload;
		if (!read_layer(skb, &layer))
			return 0;
	}
	return !bpf_skb_change_tail(skb, to, 0);
}

/* The buffer has counted a frame as dropped; it lives on, and the agent is told. `group` is the slot and the priority that
 * it came in by, `frame` its length and the queue that was full. */
__noinline int recount(__u32 group, __u32 waits, __u32 reason, __u32 cells, __u32 frame)
{
	struct queue *queue = waits == NO_QUEUE ? NULL : limited(waits);
	struct place place;

	reason &= DROP_SLOTS - 1;
	if (!find(group / PRIORITIES, group % PRIORITIES, &place))
		return 0;
	bpf_spin_lock(&place.buffer->lock);
	place.group->dropped_frames[reason]--;
	place.group->dropped_cells[reason] -= cells;
	place.group->dropped_frames[TRIMMED]++;
	place.group->dropped_cells[TRIMMED] += cells;
	if (queue && reason >= DROP_QUEUE_THRESHOLD) {
		queue->dropped_frames--;
		queue->dropped_cells -= cells;
	}
	bpf_spin_unlock(&place.buffer->lock);
	reason = TRIMMED | (frame >> FULL_QUEUE & 7) << TRIMMED_QUEUE;
	tell(place.port, place.group, what(EVENT_DROP, group / PRIORITIES, group % PRIORITIES, reason, frame & 0xFFFF));
	return 0;
}

/* Rules T1 to T7, for a frame that came in by a slot and was to go into the queue `full`. Returns the octets that it had
 * if it is a rest now, which is to be sent to this port again. */
__noinline int trim(struct __sk_buff *skb, __u32 slot, __u32 full)
{
	struct trimming *trimming = trimming_of(skb->ifindex - FIRST_INTERFACE);
	struct port *in = bpf_map_lookup_elem(&ports, &slot);
	__u32 tag = skb->vlan_present ? 4 : 0, length = skb->len + tag, queue;
	struct found found = {};
	__u8 to[1] = {}, class;

	full &= PRIORITIES - 1;
	if (!trimming || !in || !trimming->octets || !(trimming->queues >> full & 1) ||
	    bpf_skb_load_bytes(skb, 0, to, 1) || to[0] & 1)
		return 0;
	look_at(skb, &found);
	if (!found.version || !cut(skb, found.ip, trimming->octets - tag))
		return 0;
	trimming->frames[full]++;
	trimming->whole_octets[full] += length;
	write_dscp(skb, &found, trimming->dscp & 63);
	class = trimming->class != UNCHANGED ? trimming->class : classify(in, &found);
	queue = trimming->queue != UNCHANGED ? trimming->queue : in->dot1p_to_local[class & 7];
	skb->mark = REST_MAGIC | slot << MARK_SLOT | (__u32)(class & 7) << MARK_PRIORITY | full << REST_FULL | (queue & 7);
	skb->priority = 0;
	return length;
}

/* What became of a rest. */
static __always_inline void note_rest(__u32 slot, __u32 full, __u32 length, int is_sent)
{
	struct trimming *trimming = trimming_of(slot);

	full &= PRIORITIES - 1;
	if (!trimming)
		return;
	if (is_sent) {
		trimming->sent_frames[full]++;
		trimming->sent_octets[full] += length;
	} else {
		trimming->dropped_frames[full]++;
		trimming->dropped_octets[full] += length;
	}
}
