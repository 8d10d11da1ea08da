/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Rules of one's own in a switch, a part of the port program that is an object of its own (RULES): by which of the equal
 * ways a frame leaves, whether a port admits it, and what is stamped into packets that collect telemetry.
 *
 * The rules are code that the kernel of the engine `um` interprets (xoff_rule_kern.c). They are asked by a helper that no
 * other kernel has. Without an answer, and after a fault of the rule, the program does what it does without rules.
 *
 * Stated in: testbed/switch/ways/model.py, testbed/switch/rules/choosing.py, testbed/switch/rules/hooks.py.
 * Compared by: tests/lab/rules/test_hooks.py.
 * The structures are mirrored by testbed/lab/um/linux/xoff_rule.h.
 */

#define BY_RULE 6 /* of `ways` */
#define TOLD 11
#define MORE 3
#define COLUMNS 3

enum asked_event { RULE_CHOOSES = 0, RULE_ADMITS = 2, RULE_STAMPS = 3 };
enum verdict { RULE_ADMIT, RULE_DROP, RULE_TRIM };
#define BY_OWN_RULE 6 /* of a group's dropped_frames, and the reason in the event of one */

struct asked_of_port {
	__u32 number;
	__u32 ways;
	__s64 told[TOLD];
};

struct asked {
	__u32 number;
	__u32 ways;
	__s64 told[TOLD];
	__s64 more[MORE];
	__s64 rows[COLUMNS][MEMBERS];
};

static long (*ask_rule)(__u32 event, const void *asked, __u32 size) = (void *)92;

/* What a choice is asked by, which is too large for a stack: the frame that is being forwarded */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct asked);
} questions SEC(".maps");

static __always_inline struct asked *question(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&questions, &zero);
}

/* Note what a rule may read of the frame that is to be asked about */
static __noinline int note_fields(struct hashed *from)
{
	struct asked *asked = question();

	if (!asked || !from)
		return 0;
	asked->told[6] = from->words[8] >> 16;
	asked->told[7] = from->words[8] & 0xFFFF;
	asked->told[8] = from->words[9];
	asked->told[9] = from->words[11];
	asked->told[10] = from->words[10];
	asked->more[0] = from->words[3] ? from->words[3] : from->words[0];
	asked->more[1] = from->words[7] ? from->words[7] : from->words[4];
	return 0;
}

/* What waits at a member's port, what it has been given lately, and whether it is there. Global, for the verifier, as
 * load_of. */
__noinline int tell_way(struct ways *ways, __u32 place, __u64 now)
{
	struct asked *asked = question();
	const struct member *member;
	const struct port *port;
	__u64 queued = 0, lives;

	if (!ways || !asked || place >= MEMBERS)
		return 0;
	member = &ways->member[place];
	port = port_of(member->interface);
	if (port)
		for (int queue = 0; queue < PRIORITIES; queue++)
			queued += port->queued_bytes[queue];
	lives = ways->half_life_ns ? (now - member->load_ns) / ways->half_life_ns : 64;
	asked->rows[0][place] = queued;
	asked->rows[1][place] = lives < 64 ? member->load >> lives : 0;
	asked->rows[2][place] = member->interface != 0;
	return 0;
}

/* The member that a rule chooses; that of the hash, if it has no answer or chooses one that has left. */
static __noinline __u32 by_rule(struct ways *ways, __u32 number, __u32 hash, __u64 now, __u32 length)
{
	__u32 key = number * FLOWLETS + (hash & (FLOWLETS - 1)), member;
	struct asked *asked = question();
	struct flowlet *known, new = {};
	long way;

	if (!ways || !ways->size || !asked)
		return NO_MEMBER;
	known = bpf_map_lookup_elem(&flowlets, &key);
	asked->number = ways->unused;
	asked->ways = ways->members;
	asked->told[0] = now;
	asked->told[1] = length;
	asked->told[2] = hash;
	asked->told[3] = known ? now - known->last_ns : now;
	asked->told[4] = known ? (__s64)known->member : -1;
	asked->told[5] = ways->members;
	asked->more[2] = number;
	for (int place = 0; place < MEMBERS; place++) {
		if (place >= ways->members)
			break;
		tell_way(ways, place, now);
	}
	way = ask_rule(RULE_CHOOSES, asked, sizeof(*asked));
	member = way >= 0 && way < MEMBERS && ways->member[way & (MEMBERS - 1)].interface
			 ? way & (MEMBERS - 1)
			 : ways->table[hash % ways->size & (TABLE - 1)];
	if (!known || known->member != member)
		ways->flowlets++;
	new.last_ns = now;
	new.member = member;
	if (known)
		*known = new;
	else
		bpf_map_update_elem(&flowlets, &key, &new, BPF_ANY);
	return member;
}

/* What a rule says about a frame that is to wait in a queue here, before the buffer is asked; `frame` is the queue, the
 * DSCP, the ECN field and the cells that the frame takes. */
static __noinline int verdict_of(struct __sk_buff *skb, struct group *group, struct buffer *buffer, struct port *out,
				 __u64 frame)
{
	struct asked_of_port asked;
	long verdict;

	if (!group || !buffer || !out)
		return RULE_ADMIT;
	asked.number = skb->ifindex;
	asked.ways = 0;
	asked.told[0] = bpf_ktime_get_ns();
	asked.told[1] = frame & 7;
	asked.told[2] = skb->len + (skb->vlan_present ? 4 : 0);
	asked.told[3] = frame >> 16 & 3;
	asked.told[4] = out->queued_bytes[out->queue[frame & 7] & (PRIORITIES - 1)];
	asked.told[5] = frame >> 8 & 63;
	asked.told[6] = frame >> 32;
	asked.told[7] = (__u64)group->used[GUARANTEED] + group->used[SHARED] + group->used[HEADROOM];
	asked.told[8] = free_cells(ingress_pool(buffer, group));
	asked.told[9] = group->lossless != LOSSY;
	asked.told[10] = 0;
	verdict = ask_rule(RULE_ADMITS, &asked, sizeof(asked));
	return verdict < 0 ? RULE_ADMIT : verdict;
}

/* A rule refuses a frame: before the buffer has counted it */
static __always_inline void refuse(struct buffer *buffer, struct group *group, __u32 cells)
{
	bpf_spin_lock(&buffer->lock);
	group->dropped_frames[BY_OWN_RULE]++;
	group->dropped_cells[BY_OWN_RULE] += cells;
	bpf_spin_unlock(&buffer->lock);
}

/* What a port stamps in place of the rate of its line */
static __noinline __u32 stamp_of(struct __sk_buff *skb, struct port *out, __u32 queue, __u32 kbps)
{
	struct asked_of_port asked;
	long stamp;

	if (!out)
		return kbps;
	asked.number = skb->ifindex;
	asked.ways = 0;
	asked.told[0] = bpf_ktime_get_ns();
	asked.told[1] = queue & (PRIORITIES - 1);
	asked.told[2] = skb->len + (skb->vlan_present ? 4 : 0);
	asked.told[3] = kbps;
	asked.told[4] = out->queued_bytes[queue & (PRIORITIES - 1)];
	asked.told[5] = 0;
	asked.told[6] = asked.told[7] = asked.told[8] = asked.told[9] = asked.told[10] = 0;
	stamp = ask_rule(RULE_STAMPS, &asked, sizeof(asked));
	return stamp < 0 ? kbps : stamp;
}
