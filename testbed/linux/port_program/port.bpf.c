// SPDX-License-Identifier: GPL-2.0-only
/*
 * The port program: what the kernel does at every port of the lab, for all nodes of one network.
 *
 * port_in   (tcx ingress)  hands MAC control frames to the node's agent; nothing else may see them. A switch sends
 *                          frames to known stations straight to their port, or by one of several equal ways (the rules
 *                          are those of testbed/switch/ways); the bridge gets the others. At a router or a leaf, whose frames Linux or Open vSwitch forwards, it notes how they came.
 * port_out  (tcx egress)   finds the frame's priority, picks its queue, charges it to the buffer of the port it came in
 *                          by, and admits or drops it.
 * left, freed              give the cells back when the frame's last bit has left, or when it dies in its queue; frames
 *                          that die in a queue or a cable are counted.
 *
 * With WAITS defined the program also keeps, for those who look for deadlocks, how many cells of each group lie in each
 * queue. That is an object of its own, so that it costs other networks nothing.
 *
 * With TRIM defined it can cut what it would drop (port_trimming.bpf.h), and with RULES it asks rules of the user's own
 * (port_rules.bpf.h).
 *
 * With TELEMETRY defined it also stamps RoCE packets that collect telemetry (testbed/frames/telemetry.py); that object
 * has WAITS as well.
 *
 * Stated in: testbed/switch/buffer/model.py, testbed/switch/buffer/charging.py, testbed/switch/priority/classify.py,
 * testbed/switch/priority/marking.py, testbed/switch/priority/applications.py, testbed/switch/priority/lanes.py,
 * testbed/switch/ways/model.py, testbed/switch/ways/frame.py, testbed/switch/pfc/line.py.
 * Compared by: tests/lab/pfc/test_buffers.py, tests/lab/pfc/test_priorities.py, tests/lab/qos/test_lanes.py,
 * tests/lab/ways/test_equal_ways.py, tests/lab/pfc/test_line.py.
 * The structures are mirrored by testbed/linux/port_program/__init__.py, which checks their sizes when it loads the
 * object. (The lines of this file are counted in the object.)
 *
 * A port is known by its slot: interface indices are given out by us, FIRST_INTERFACE + slot, so that they are unique
 * over all namespaces of the network and `ingress_ifindex` says everything.
 */
#include <stddef.h>
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define SLOTS 2048
#define FIRST_INTERFACE 4096
/* The two ends of a cable's middle, at the slots of its ports; far from what the kernel numbers by itself */
#define FIRST_MIDDLE (256 * FIRST_INTERFACE)
#define PRIORITIES 8
#define SLS 16
#define NODES 1024

#define ETHERTYPE_MAC_CONTROL 0x8808
#define OPCODE_PFC 0x0101
#define ETHERTYPE_LLDP 0x88cc
#define ETHERTYPE_IPV4 0x0800
#define ETHERTYPE_IPV6 0x86dd
#define ETHERTYPE_VLAN 0x8100
#define ETHERTYPE_SVLAN 0x88a8

#define NEXT (-1) /* to the next program, or to the qdisc */
#define DROP 2

/* The mark of a frame that holds cells: magic, then slot and priority of its group, then cells. */
#define MARK_MAGIC 0xA0000000u
#define MARK_MAGIC_BITS 0xF0000000u
#define MARK_SLOT 17
#define MARK_PRIORITY 14
#define MARK_CELLS 0x3FFFu

/* The mark of a frame that a router or a leaf is passing on: magic, then the slot that it came in by and its priority.
 * Headers and interface may be others by the time it leaves, if it goes into a tunnel or comes out of one, or through a
 * VRF; and a frame that Open vSwitch's daemon has seen is another one to the kernel, with the same mark. */
#define CAME_MAGIC 0xB0000000u

/* skb->tc_index of a frame that is charged to its queue as well: magic, then slot of the port, then the queue. */
#define WAITS_MAGIC 0x8000u
#define WAITS_PLACE 0x3FFFu
#define NO_QUEUE 0xFFFFFFFFu

#define UNCHANGED 0xFF
#define ROUTED 2
#define STEERED 3
/* What Open vSwitch makes of OpenFlow's SET_QUEUE: the class of this queue below a qdisc 1:, the first being 1:1. To us
 * it is a priority, in place of the one that the frame's own marks stand for. */
#define FIRST_QUEUE 0x10001u
#define CLASSES 0xFFFFu /* of a port's htb, which is 1: */
#define WIRE_OVERHEAD 24 /* preamble, FCS and gap, which Linux does not count */
#define CLOCK_MONOTONIC 1
#define AT_MOMENT 1 /* BPF_F_TIMER_ABS, which some headers do not have yet */

enum kind { GUARANTEED, SHARED, HEADROOM, KINDS };
enum drop {
	DROP_HEADROOM,
	DROP_HEADROOM_POOL,
	DROP_THRESHOLD,
	DROP_SHARED_POOL,
	DROP_QUEUE_THRESHOLD,
	DROP_EGRESS_POOL,
	DROPS,
	ADMITTED = DROPS
};
#define DROP_SLOTS 8 /* a power of two, for the verifier */
/* Pools of a switch: ingress ones, then egress ones. */
#define POOLS 4
#define ANY_POOL (POOLS - 1)
/* How a frame dies that a buffer did not drop: by its queue, which is full, marks early or has no carrier; with its queue,
 * which is emptied; as it leaves its port, for there is nobody at the other end, or for it is longer than the cable's MTU;
 * in the middle of its cable. */
enum death { BY_QUEUE, WITH_QUEUE, AT_LINK, IN_CABLE, TOO_LONG };
#define DEATH_SLOTS 8
enum trust { TRUST_NONE, TRUST_DOT1P, TRUST_DSCP };
enum event_kind { EVENT_FRAME = 1, EVENT_XOFF, EVENT_XON, EVENT_DROP };
#define WHOLE_PORT 0x100u /* beside EVENT_XOFF and EVENT_XON, or alone: it is about the port's other groups too */
/* WITH_PORT: lossless, and the headroom is the port's; a port without room is paused whole (rules H1 to H4, DSH). */
enum loss { LOSSY, LOSSLESS, WITH_PORT };

struct port {
	__u32 node;			/* whose agent hears of it */
	__u32 buffer;			/* index of the buffer that frames coming in here are charged to */
	__u32 control;			/* skb->priority of MAC control and LLDP frames: ahead of all queues */
	__u32 pause;			/* the same of PFC frames, which may have to wait for the line */
	__u32 octet_ps;			/* the time of an octet on the line; 0: frames leave in no time */
	__u32 pause_ns;			/* from the first bit of a PFC frame that comes in here to its last one */
	__u32 queue[PRIORITIES];	/* skb->priority of a frame of this local priority going out here */
	__u8 charged;			/* is there such a buffer? A host has none */
	__u8 switched;			/* 1: the forwarding table holds for frames coming in here; ROUTED: a router's port;
					 * STEERED: a leaf's, whose controller may choose priorities */
	__u8 blocked;			/* priorities whose frames the watchdog drops instead of queueing them here */
	__u8 defended;			/* priorities whose frames are discarded as they come in: DCBX's defense */
	__u8 applications;		/* which kinds of entry `applications` has for frames of this node's own */
	__u8 lanes;			/* has `lanes` tables for frames that leave here? */
	__u8 counted;			/* are frames that leave here charged to `queues`? */
	/* From here on as PriorityMap.tables() of testbed/priority has it. */
	__u8 trust;
	__u8 port_priority;
	__u8 dscp_to_dot1p[64];
	__u8 dot1p_to_local[PRIORITIES];
	__u8 rewrite_dot1p[PRIORITIES];
	__u8 rewrite_dscp[PRIORITIES];
	__u8 mark_dscp[PRIORITIES];
	__u8 pcp_to_dot1p[PRIORITIES];
	__u8 dot1p_to_group[PRIORITIES]; /* the priority group that a frame coming in here is charged to */
	__u64 sent_frames[PRIORITIES];	/* put into a queue here, by local priority */
	__u64 sent_bytes[PRIORITIES];
	__u64 blocked_frames[PRIORITIES];
	__u64 defended_frames[PRIORITIES];
	__u64 steered_frames[PRIORITIES]; /* of those sent, by the priority that a controller chose for them */
	__u64 vl15_frames[SLS];		/* that were to leave here, by SL, which is mapped to a VL that no port has */
	__u64 lost_events;
	__u64 seen_frames;		/* MAC control frames handed to the agent */
	__u64 died_frames[DEATH_SLOTS];	/* of those sent here; not MAC control and LLDP */
	__u64 queued_bytes[PRIORITIES];	/* of frames with cells that wait here, by queue */
	__u64 most_queued_bytes[PRIORITIES];
};

struct group {
	__u32 lossless;			/* enum loss */
	__u32 guaranteed;
	__u32 alpha_numerator;		/* with denominator 0: the static threshold in cells */
	__u32 alpha_denominator;
	__u32 xon_offset;
	__u32 headroom;
	__u32 xon;
	__u32 pool;
	__u32 used[KINDS];
	__u32 high_water[KINDS];
	__u32 most_cells;
	__u32 xoff;
	__u64 xoffs;
	__u64 xons;
	__u64 admitted_frames;
	__u64 admitted_cells;
	__u64 released_frames;
	__u64 released_cells;
	__u64 dropped_frames[DROP_SLOTS];
	__u64 dropped_cells[DROP_SLOTS];
	__u64 impossible_releases;	/* more given back than was held: never, or this program is wrong */
};

/* The lossless groups of a port together, where ports are paused whole. */
struct whole {
	__u32 groups;			/* how many they are */
	__u32 headroom;			/* the most cells that they may have in headroom */
	__u32 used_shared;
	__u32 used_headroom;
	__u32 most_shared;
	__u32 most_headroom;
	__u32 paused;
	__u32 unused;
	__u64 pauses;
	__u64 resumes;
};

/* A queue of an egress port: GUARANTEED cells are reserved ones, and there is no HEADROOM. */
struct queue {
	__u32 limited;			/* has it settings? */
	__u32 pool;
	__u32 reserved;
	__u32 alpha_numerator;		/* as in a group */
	__u32 alpha_denominator;
	__u32 used[2];
	__u32 high_water[2];
	__u32 most_cells;
	__u64 admitted_frames;
	__u64 admitted_cells;
	__u64 dropped_frames;
	__u64 dropped_cells;
};

struct pool {
	__u32 size[KINDS];
	__u32 used[KINDS];
	__u32 high_water[KINDS];
	__u32 most_cells;
};

struct buffer {
	struct bpf_spin_lock lock;
	__u32 cell_bytes;
	struct pool pools[2 * POOLS];
};

/* A frame whose last bit has not left yet. */
struct held {
	__u64 due_ns;
	__u32 mark;
	__u32 waits;			/* skb->tc_index */
};

#define HELD 32 /* of one port; if there are more, the oldest gives its cells back too early */

/* The line of a port by which a buffer's frames leave. */
struct line {
	struct bpf_timer timer;
	struct bpf_spin_lock lock;
	__u32 first;			/* of `held`, which is a ring */
	__u32 count;
	__u32 unused;
	__u64 free_ns;			/* when the last bit of all so far has left */
	struct held held[HELD];
};

struct event {
	__u64 time_ns;
	__u16 kind;
	__u16 slot;
	__u8 priority;
	__u8 reason;			/* of a drop */
	__u16 length;			/* of the frame */
	__u32 shared;			/* cells that the group holds in the shared pool, at an XOFF or XON */
	__u32 headroom;
};

#define FRAME_BYTES 64 /* all of a MAC control frame; what a longer one has more is padding */

struct frame_event {
	struct event event;
	__u8 octets[FRAME_BYTES];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SLOTS);
	__type(key, __u32);
	__type(value, struct port);
} ports SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SLOTS * PRIORITIES);
	__type(key, __u32);
	__type(value, struct group);
} groups SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SLOTS * PRIORITIES);
	__type(key, __u32);
	__type(value, struct queue);
} queues SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SLOTS);
	__type(key, __u32);
	__type(value, struct whole);
} wholes SEC(".maps");

/* The switch's node number in the upper 16 bits, the station's address below, as it lies in the frame. */
typedef __u64 station;

/* Which interface of a switch leads to a station, or with ONE_OF, which entry of `ways` has those that do. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, station);
	__type(value, __u32);
} stations SEC(".maps");

#define ONE_OF 0x80000000u
#define WAYS 1024
#define MEMBERS 64
#define TABLE 256
#define FLOWLETS 1024 /* of one entry of `ways` */
#define NO_MEMBER 0xFFu
#define WORDS 15

/* As in testbed/switch/ways/model.py. */
enum by { BY_HASH, BY_FLOWLET, BY_ADAPTIVE_FLOWLET, BY_TURNS, BY_CHANCE, BY_LOAD };
enum hash_field {
	SOURCE = 1, DESTINATION = 2, PROTOCOL = 4, SOURCE_PORT = 8, DESTINATION_PORT = 16, FLOW_LABEL = 32, QUEUE_PAIR = 64,
	SOURCE_MAC = 128, DESTINATION_MAC = 256, INNER = 512
};

struct member {
	__u32 interface;		/* 0: none, or it has left */
	__u32 unused;
	__u64 frames;
	__u64 octets;
	__u64 load;			/* of octets sent lately, halved after each half_life_ns */
	__u64 load_ns;
};

/* Equal ways from a switch to some stations. */
struct ways {
	__u32 by;
	__u32 fields;
	__u32 seed;
	__u32 size;			/* of the table; 0: no way is left */
	__u32 members;
	__u32 next;			/* whose turn it is */
	__u32 random;			/* the generator's state, never 0 */
	__u32 unused;			/* with RULES: the rule of the user's own that chooses */
	__u64 gap_ns;			/* a flow that was silent for as long may take another way */
	__u64 half_life_ns;
	__u64 flowlets;			/* begun */
	__u8 table[TABLE];		/* members, as often as their weights have it */
	struct member member[MEMBERS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, WAYS);
	__type(key, __u32);
	__type(value, struct ways);
} ways SEC(".maps");

struct flowlet {
	__u64 last_ns;
	__u32 member;
	__u32 unused;
};

/* By the entry of `ways` and ten bits of the hash. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 262144);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, struct flowlet);
} flowlets SEC(".maps");

/* The priority of a protocol, at one port: its slot in the upper 32 bits, then the selector, then the protocol's ID. */
typedef __u64 application;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, application);
	__type(value, __u8);
} applications SEC(".maps");

/* The VL of each SL for one way through a node: the slots of input and output port, 16 bits each. */
typedef __u32 crossing;
#define OWN_FRAMES 0xFFFFu /* in place of the input port's slot */

struct lanes {
	__u8 vl[SLS];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, crossing);
	__type(value, struct lanes);
} lanes SEC(".maps");

/* Not mapped into memory: a value with a lock cannot be. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, NODES);
	__type(key, __u32);
	__type(value, struct buffer);
} buffers SEC(".maps");

/* Neither can one with a timer. It is there if `has_lines`. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SLOTS);
	__type(key, __u32);
	__type(value, struct line);
} lines SEC(".maps");

/* Set before it is loaded: is a port's line a real one? Else the kernel leaves out all that is for lines. */
const volatile __u32 has_lines = 0;

struct ring {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 65536);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, NODES);
	__type(key, __u32);
	__array(values, struct ring);
} rings SEC(".maps");

#define RING_BYTES 65536
#define RING_FOR_FRAMES (RING_BYTES / 2) /* frames and drops may fill this much; the rest is for XOFF and XON */
#define DROPS_AT_ONCE (24 * (sizeof(struct event) + 8)) /* what is read before an event that matters has to be short */

/* Where the kernel frees what a queue held that is reset or removed; `prepare` finds it. */
__u64 reset_location;
#define RESET_FUNCTION "__rtnl_unlock"
#define RESET_FUNCTION_BYTES 128
/* Where it frees the frame that a qdisc has shown to the one above, which then held it back for its rate. */
__u64 shown_location;
#define SHOWN_FUNCTION "qdisc_reset"
#define SHOWN_FUNCTION_BYTES 256
/* Where netem, in front of a queue, frees what that queue has no room for: as it sends the next frame, and without a
 * reason. 0 where netem is not loaded. */
__u64 overflow_location;
#define OVERFLOW_FUNCTION "netem_dequeue"
#define OVERFLOW_FUNCTION_BYTES 1024
/* Where the kernel frees what it cannot pass to the other end of a pair, for that is down. While it is being set down
 * there is a reason. */
__u64 link_location;
#define LINK_FUNCTION "__dev_forward_skb2"
#define LINK_FUNCTION_INLINED "__dev_forward_skb"
#define LINK_FUNCTION_BYTES 512
#define BESIDE_MTU 18 /* header and a tag, which it passes in any case */

/* The little of the kernel's own types that is looked at; offsets are found when the program is loaded. */
struct net_device {
	int ifindex;
	unsigned int mtu;
} __attribute__((preserve_access_index));

struct sk_buff {
	__u32 mark;
	__u32 priority;
	__u16 tc_index;
	__be16 protocol;
	int skb_iif;
	unsigned int len;
	struct net_device *dev;
} __attribute__((preserve_access_index));

enum skb_drop_reason { /* some numbers: the kernel's own take their places */
	SKB_DROP_REASON_QDISC_DROP = 1,
	SKB_DROP_REASON_DEV_READY = 2,
};

static __always_inline struct port *port_of(__u32 interface)
{
	__u32 slot = interface - FIRST_INTERFACE;

	return bpf_map_lookup_elem(&ports, &slot);
}

/* A pool that was made smaller in use may hold more than it has until that drains. */
static __always_inline __u32 free_cells(const struct pool *pool)
{
	return pool->used[SHARED] < pool->size[SHARED] ? pool->size[SHARED] - pool->used[SHARED] : 0;
}

static __always_inline __u32 limit_of(__u32 numerator, __u32 denominator, __u32 free)
{
	if (!denominator)
		return free ? numerator : 0;
	__u64 cells = (__u64)numerator * free / denominator;
	return cells > 0xFFFFFFFFu ? 0xFFFFFFFFu : cells;
}

static __always_inline __u32 threshold(const struct group *group, __u32 free)
{
	return limit_of(group->alpha_numerator, group->alpha_denominator, free);
}

/* The same for rules H1 to H4, where sums may be larger than 32 bits. */
static __always_inline __u64 wide_threshold(const struct group *group, __u32 free)
{
	if (!group->alpha_denominator)
		return free ? group->alpha_numerator : 0;
	return (__u64)group->alpha_numerator * free / group->alpha_denominator;
}

static __always_inline struct pool *ingress_pool(struct buffer *buffer, const struct group *group)
{
	return &buffer->pools[group->pool & ANY_POOL];
}

static __always_inline struct pool *egress_pool(struct buffer *buffer, const struct queue *queue)
{
	return &buffer->pools[POOLS + (queue->pool & ANY_POOL)];
}

static __always_inline void note_most(struct pool *pool)
{
	__u32 total = pool->used[GUARANTEED] + pool->used[SHARED] + pool->used[HEADROOM];

	if (total > pool->most_cells)
		pool->most_cells = total;
}

static __always_inline void charge_pool(struct pool *pool, enum kind kind, __u32 cells)
{
	pool->used[kind] += cells;
	if (pool->used[kind] > pool->high_water[kind])
		pool->high_water[kind] = pool->used[kind];
}

static __always_inline void charge(struct pool *pool, struct group *group, enum kind kind, __u32 cells)
{
	group->used[kind] += cells;
	if (group->used[kind] > group->high_water[kind])
		group->high_water[kind] = group->used[kind];
	charge_pool(pool, kind, cells);
}

static __always_inline void charge_queue(struct pool *pool, struct queue *queue, enum kind kind, __u32 cells)
{
	queue->used[kind] += cells;
	if (queue->used[kind] > queue->high_water[kind])
		queue->high_water[kind] = queue->used[kind];
	charge_pool(pool, kind, cells);
}

/* Rules Q1 and Q2, under the lock. `reserved` is set to the cells that the queue's own part takes. */
static __always_inline enum drop room(struct buffer *buffer, const struct queue *queue, __u32 cells, __u32 *reserved)
{
	__u32 free = free_cells(egress_pool(buffer, queue)), unused = queue->reserved - queue->used[GUARANTEED], rest;

	*reserved = cells < unused ? cells : unused;
	rest = cells - *reserved;
	if (!rest || (rest <= free && (__u64)queue->used[SHARED] + rest <=
					      limit_of(queue->alpha_numerator, queue->alpha_denominator, free)))
		return ADMITTED;
	return rest > free ? DROP_EGRESS_POOL : DROP_QUEUE_THRESHOLD;
}

/* Rule Q3, under the lock. */
static __always_inline void enqueue(struct buffer *buffer, struct queue *queue, __u32 cells, __u32 reserved)
{
	struct pool *pool = egress_pool(buffer, queue);
	__u32 total;

	if (reserved)
		charge_queue(pool, queue, GUARANTEED, reserved);
	if (cells != reserved)
		charge_queue(pool, queue, SHARED, cells - reserved);
	queue->admitted_frames++;
	queue->admitted_cells += cells;
	total = queue->used[GUARANTEED] + queue->used[SHARED];
	if (total > queue->most_cells)
		queue->most_cells = total;
	note_most(pool);
}

static __always_inline void dequeue(struct buffer *buffer, struct queue *queue, __u32 cells)
{
	struct pool *pool = egress_pool(buffer, queue);
	__u32 shared = cells < queue->used[SHARED] ? cells : queue->used[SHARED], rest = cells - shared;
	__u32 reserved = rest < queue->used[GUARANTEED] ? rest : queue->used[GUARANTEED];

	queue->used[SHARED] -= shared;
	queue->used[GUARANTEED] -= reserved;
	pool->used[SHARED] -= shared;
	pool->used[GUARANTEED] -= reserved;
}

static __always_inline void drop_in(struct group *group, enum drop reason, __u32 cells)
{
	group->dropped_frames[reason & (DROP_SLOTS - 1)]++;
	group->dropped_cells[reason & (DROP_SLOTS - 1)] += cells;
}

static __always_inline void stop(struct group *group)
{
	group->xoff = 1;
	group->xoffs++;
}

static __always_inline void count_in(struct pool *pool, struct group *group, __u32 cells)
{
	__u32 total = group->used[GUARANTEED] + group->used[SHARED] + group->used[HEADROOM];

	group->admitted_frames++;
	group->admitted_cells += cells;
	if (total > group->most_cells)
		group->most_cells = total;
	note_most(pool);
}

/* Rules A1 to A4, under the lock. `signal` is set to EVENT_XOFF if this frame made the group congested. */
static __always_inline enum drop admit(struct buffer *buffer, struct group *group, __u32 cells, __u16 *signal)
{
	struct pool *pool = ingress_pool(buffer, group);
	enum drop result = ADMITTED;

	if (!group->xoff) { /* A2, A3 */
		__u32 free = free_cells(pool);
		__u32 unused = group->guaranteed - group->used[GUARANTEED];
		__u32 guaranteed = cells < unused ? cells : unused;
		__u32 rest = cells - guaranteed;

		if (!rest || (rest <= free && (__u64)group->used[SHARED] + rest <= threshold(group, free))) {
			if (guaranteed)
				charge(pool, group, GUARANTEED, guaranteed);
			if (rest)
				charge(pool, group, SHARED, rest);
			goto admitted;
		}
		if (!group->lossless) {
			result = rest > free ? DROP_SHARED_POOL : DROP_THRESHOLD;
			goto dropped;
		}
		stop(group);
		*signal = EVENT_XOFF;
	}
	/* A4 */
	if ((__u64)group->used[HEADROOM] + cells > group->headroom) {
		result = DROP_HEADROOM;
		goto dropped;
	}
	if ((__u64)pool->used[HEADROOM] + cells > pool->size[HEADROOM]) {
		result = DROP_HEADROOM_POOL;
		goto dropped;
	}
	charge(pool, group, HEADROOM, cells);
admitted:
	count_in(pool, group, cells);
	return ADMITTED;
dropped:
	drop_in(group, result, cells);
	return result;
}

/* The same for a frame that is to wait in a queue of an egress port, if `queue` is one that is limited. */
static __always_inline enum drop admit_to(struct buffer *buffer, struct group *group, struct queue *queue, __u32 cells,
					  __u16 *signal)
{
	enum drop result;
	__u32 reserved;

	if (!queue)
		return admit(buffer, group, cells, signal);
	result = room(buffer, queue, cells, &reserved);
	if (result != ADMITTED) {
		queue->dropped_frames++;
		queue->dropped_cells += cells;
		drop_in(group, result, cells);
		return result;
	}
	result = admit(buffer, group, cells, signal);
	if (result == ADMITTED)
		enqueue(buffer, queue, cells, reserved);
	return result;
}

/* D2, under the lock. */
static __always_inline __u16 resume(struct buffer *buffer, struct group *group)
{
	if (!group->xoff)
		return 0;
	if (group->lossless) {
		if (group->used[HEADROOM])
			return 0;
		if (group->used[SHARED] && (__u64)group->used[GUARANTEED] + group->used[SHARED] > group->xon &&
		    (__u64)group->used[SHARED] + group->xon_offset >
			    threshold(group, free_cells(ingress_pool(buffer, group))))
			return 0;
	}
	group->xoff = 0;
	group->xons++;
	return EVENT_XON;
}

/* H4 for one group, under the lock, when its port is not paused. */
static __always_inline __u16 resume_with(struct buffer *buffer, struct group *group)
{
	if (!group->xoff)
		return 0;
	if (group->used[SHARED] && (__u64)group->used[GUARANTEED] + group->used[SHARED] > group->xon &&
	    (__u64)group->used[SHARED] + group->headroom + group->xon_offset >
		    wide_threshold(group, free_cells(ingress_pool(buffer, group))))
		return 0;
	group->xoff = 0;
	group->xons++;
	return EVENT_XON;
}

/* D2, or H3 and H4, under the lock: of this group, and whether its port resumes. */
static __always_inline __u16 resume_of(struct buffer *buffer, struct whole *port, struct group *group)
{
	__u16 signal = 0;

	if (!port)
		return resume(buffer, group);
	if (port->paused) {
		__u64 limit = wide_threshold(group, free_cells(ingress_pool(buffer, group)));

		if (port->used_headroom ||
		    (port->used_shared &&
		     port->used_shared + (__u64)port->groups * group->xon_offset > port->groups * limit))
			return 0;
		port->paused = 0;
		port->resumes++;
		signal = WHOLE_PORT;
	}
	return signal | resume_with(buffer, group);
}

/* D1, under the lock. */
static __always_inline __u16 release(struct buffer *buffer, struct whole *port, struct group *group, __u32 cells)
{
	struct pool *pool = ingress_pool(buffer, group);
	__u32 headroom = cells < group->used[HEADROOM] ? cells : group->used[HEADROOM];
	__u32 rest = cells - headroom;
	__u32 shared = rest < group->used[SHARED] ? rest : group->used[SHARED];
	__u32 guaranteed = rest - shared;

	if (guaranteed > group->used[GUARANTEED] || group->released_frames == group->admitted_frames) {
		group->impossible_releases++;
		return 0;
	}
	group->released_frames++;
	group->released_cells += cells;
	group->used[HEADROOM] -= headroom;
	group->used[SHARED] -= shared;
	group->used[GUARANTEED] -= guaranteed;
	pool->used[HEADROOM] -= headroom;
	pool->used[SHARED] -= shared;
	pool->used[GUARANTEED] -= guaranteed;
	if (port) {
		port->used_shared -= shared;
		port->used_headroom -= headroom;
	}
	return resume_of(buffer, port, group);
}

/* XOFF and XON wake the agent always, and there is always room for them: what is frequent gets half the ring. */
static __noinline int tell(struct port *port, struct group *group, __u64 what)
{
	__u32 node;
	void *ring;
	struct event *event;
	__u16 kind = what >> 48;
	__u64 flags = BPF_RB_FORCE_WAKEUP;

	if (!port || !group)
		return 0;
	node = port->node;
	ring = bpf_map_lookup_elem(&rings, &node);
	if (!ring)
		return 0;
	if (kind >= EVENT_DROP) {
		__u64 waiting = bpf_ringbuf_query(ring, BPF_RB_AVAIL_DATA);

		if (waiting > RING_FOR_FRAMES) {
			port->lost_events++;
			return 0;
		}
		if (waiting < DROPS_AT_ONCE)
			flags = BPF_RB_NO_WAKEUP; /* it is read along with the next event that matters */
	}
	event = bpf_ringbuf_reserve(ring, sizeof(*event), 0);
	if (!event) {
		port->lost_events++;
		return 0;
	}
	event->time_ns = bpf_ktime_get_ns();
	event->kind = kind;
	event->slot = what >> 32;
	event->priority = what >> 24;
	event->reason = what >> 16;
	event->length = what;
	event->shared = group->used[SHARED];
	event->headroom = group->used[HEADROOM];
	bpf_ringbuf_submit(event, flags);
	return 0;
}

static __always_inline __u64 what(__u16 kind, __u32 slot, __u32 priority, __u32 reason, __u32 length)
{
	if (length > 0xFFFF)
		length = 0xFFFF;
	return (__u64)kind << 48 | (__u64)slot << 32 | priority << 24 | reason << 16 | length;
}

/* The port that is paused and resumed with this group, if the group's headroom is the port's. */
static __always_inline struct whole *whole_of(const struct group *group, __u32 slot)
{
	return group->lossless == WITH_PORT ? bpf_map_lookup_elem(&wholes, &slot) : NULL;
}

/* What a frame says about its priority: rules R1 to R3 of testbed/switch/priority/classify.py. */
struct found {
	__u32 ip;	/* where the IP header starts */
	__u8 tagged;
	__u8 pcp;
	__u8 version;	/* 0: not IP */
	__u8 dscp;
	__u8 octets[2];	/* the first two of the IP header */
	__u16 type;	/* the EtherType after all tags, 0 if it is cut off */
};

static __always_inline int is_tag(__u16 type)
{
	return type == bpf_htons(ETHERTYPE_VLAN) || type == bpf_htons(ETHERTYPE_SVLAN);
}

static __always_inline void look_at(struct __sk_buff *skb, struct found *found)
{
	__u16 type = skb->protocol;
	__u32 at = 14;
	__u8 tag[2];

	found->tagged = found->version = found->dscp = found->pcp = 0;
	found->type = 0;
	/* The kernel keeps the outermost tag of a received frame beside it; others are still inside. */
	if (skb->vlan_present) {
		found->tagged = 1;
		found->pcp = skb->vlan_tci >> 13 & 7;
	} else if (is_tag(type)) {
		if (bpf_skb_load_bytes(skb, at, tag, 2))
			return;
		found->tagged = 1;
		found->pcp = tag[0] >> 5;
		if (bpf_skb_load_bytes(skb, at + 2, &type, 2))
			return;
		at += 4;
	}
	if (found->tagged && is_tag(type)) {
		if (bpf_skb_load_bytes(skb, at, tag, 2) || bpf_skb_load_bytes(skb, at + 2, &type, 2))
			return;
		at += 4;
	}
	found->type = bpf_ntohs(type);
	if (type != bpf_htons(ETHERTYPE_IPV4) && type != bpf_htons(ETHERTYPE_IPV6))
		return;
	void *start = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	__u8 *header = start + at;
	if ((void *)(header + 2) <= end) {
		found->octets[0] = header[0];
		found->octets[1] = header[1];
	} else if (bpf_skb_load_bytes(skb, at, found->octets, 2)) {
		return;
	}
	found->ip = at;
	if (type == bpf_htons(ETHERTYPE_IPV4)) {
		if (found->octets[0] >> 4 != 4 || (found->octets[0] & 15) < 5)
			return;
		found->version = 4;
		found->dscp = found->octets[1] >> 2;
	} else if (found->octets[0] >> 4 == 6) {
		found->version = 6;
		found->dscp = (found->octets[0] & 15) << 2 | found->octets[1] >> 6;
	}
}

/* P1 to P3. */
static __always_inline __u8 classify(const struct port *port, const struct found *found)
{
	if (port->trust == TRUST_DSCP && found->version)
		return port->dscp_to_dot1p[found->dscp & 63] & 7;
	if (port->trust != TRUST_NONE && found->tagged)
		return port->pcp_to_dot1p[found->pcp & 7] & 7;
	return port->port_priority & 7;
}
#include "port_dei.bpf.h"
/* To 01-80-C2-00-00-00 to -0F: these frames concern one cable alone. */
static __always_inline int is_link_local(struct __sk_buff *skb)
{
	__u8 to[6] = {};

	bpf_skb_load_bytes(skb, 0, to, 6);
	return to[0] == 0x01 && to[1] == 0x80 && to[2] == 0xC2 && !to[3] && !to[4] && to[5] < 16;
}

/* What of a frame is hashed: words 0 to 3 are the source address, 4 to 7 the destination, then source and destination port,
 * protocol, flow label, queue pair, and the MAC addresses. What is not chosen or not there is 0. */
struct hashed {
	__u32 words[WORDS];
};

#define UDP 17
#define TCP 6
#define ROCE_PORT 4791

static __always_inline __u32 word_of(const __u8 *octets)
{
	return (__u32)octets[0] << 24 | octets[1] << 16 | octets[2] << 8 | octets[3];
}

/* Addresses and the place of the next header; 0 if there is none. */
static __always_inline __u32 hash_ipv4(struct __sk_buff *skb, __u32 at, struct hashed *to, __u8 *protocol)
{
	__u8 header[20];

	if (bpf_skb_load_bytes(skb, at, header, sizeof(header)))
		return 0;
	*protocol = header[9];
	to->words[0] = word_of(header + 12);
	to->words[4] = word_of(header + 16);
	to->words[10] = 0;
	/* The ports of a fragment are in the first one only, so none of them counts. */
	return header[6] & 0x3F || header[7] ? 0 : at + (header[0] & 15) * 4;
}

static __always_inline __u32 hash_ipv6(struct __sk_buff *skb, __u32 at, struct hashed *to, __u8 *protocol)
{
	__u8 header[40];

	if (bpf_skb_load_bytes(skb, at, header, sizeof(header)))
		return 0;
	*protocol = header[6];
	for (int word = 0; word < 8; word++)
		to->words[word] = word_of(header + 8 + 4 * word);
	to->words[10] = word_of(header) & 0xFFFFF;
	return at + 40;
}

#define IN_IPV4 4
#define IN_IPV6 41
#define ROUTING 43

static __noinline int read_hashed(struct __sk_buff *skb, struct hashed *to, __u32 fields)
{
	struct found found = {};
	__u32 at, ports[3];
	__u8 protocol = 0, next[2], macs[12], version;

	if (!to)
		return 0;
	__builtin_memset(to, 0, sizeof(*to));
	look_at(skb, &found);
	at = found.ip;
	version = found.version;
	if (version == 4)
		at = hash_ipv4(skb, at, to, &protocol);
	else if (version == 6)
		at = hash_ipv6(skb, at, to, &protocol);
	else
		at = 0;
	if (at && version == 6 && protocol == ROUTING && !bpf_skb_load_bytes(skb, at, next, 2)) {
		at += (next[1] + 1) * 8;
		protocol = next[0];
	}
	if (at && fields & INNER && (protocol == IN_IPV4 || protocol == IN_IPV6)) {
		version = protocol;
		__builtin_memset(to, 0, sizeof(*to));
		at = version == IN_IPV4 ? hash_ipv4(skb, at, to, &protocol) : hash_ipv6(skb, at, to, &protocol);
	}
	to->words[9] = protocol;
	if (at && (protocol == UDP || protocol == TCP) && !bpf_skb_load_bytes(skb, at, ports, 4)) {
		to->words[8] = bpf_ntohl(ports[0]);
		/* The BTH is behind the UDP header; its queue pair is in octets 5 to 7. */
		if (protocol == UDP && (to->words[8] & 0xFFFF) == ROCE_PORT && !bpf_skb_load_bytes(skb, at + 12, ports, 4))
			to->words[11] = bpf_ntohl(ports[0]) & 0xFFFFFF;
	}
	if (!bpf_skb_load_bytes(skb, 0, macs, 12)) {
		to->words[13] = word_of(macs + 2);
		to->words[12] = word_of(macs + 8);
		to->words[14] = (__u32)macs[6] << 24 | macs[7] << 16 | macs[0] << 8 | macs[1];
	}
	return 1;
}

static __always_inline __u32 rotated(__u32 word, int by)
{
	return word << by | word >> (32 - by);
}

static __always_inline __u32 in_hash(__u32 hash, __u32 word)
{
	hash ^= rotated(word * 0xCC9E2D51, 15) * 0x1B873593;
	return rotated(hash, 13) * 5 + 0xE6546B64;
}

/* MurmurHash3 (32 bits) over the words of the chosen fields. */
static __noinline __u32 hash_of(struct hashed *from, __u32 fields, __u32 seed)
{
	__u32 hash = seed, *words;

	if (!from)
		return 0;
	words = from->words;
	for (int word = 0; word < 4; word++)
		hash = in_hash(hash, fields & SOURCE ? words[word] : 0);
	for (int word = 4; word < 8; word++)
		hash = in_hash(hash, fields & DESTINATION ? words[word] : 0);
	hash = in_hash(hash, (fields & SOURCE_PORT ? words[8] & 0xFFFF0000 : 0) |
				     (fields & DESTINATION_PORT ? words[8] & 0xFFFF : 0));
	hash = in_hash(hash, fields & PROTOCOL ? words[9] : 0);
	hash = in_hash(hash, fields & FLOW_LABEL ? words[10] : 0);
	hash = in_hash(hash, fields & QUEUE_PAIR ? words[11] : 0);
	hash = in_hash(hash, fields & SOURCE_MAC ? words[12] : 0);
	hash = in_hash(hash, fields & DESTINATION_MAC ? words[13] : 0);
	hash = in_hash(hash, (fields & SOURCE_MAC ? words[14] & 0xFFFF0000 : 0) |
				     (fields & DESTINATION_MAC ? words[14] & 0xFFFF : 0));
	hash ^= 4 * WORDS;
	hash = (hash ^ hash >> 16) * 0x85EBCA6B;
	hash = (hash ^ hash >> 13) * 0xC2B2AE35;
	return hash ^ hash >> 16;
}

#define NOT_THERE (~0ull)

/* Octets that wait at a member's port, and what it has been given lately.
 *
 * The verifier goes through a global function once; through a part of the loop that calls it, for each turn and each of
 * its ways again, which took longer than all else when a network starts.
 */
__noinline __u64 load_of(struct ways *ways, __u32 place, __u64 now)
{
	const struct member *member;
	const struct port *port;
	__u64 load = 0, lives;

	if (!ways || place >= MEMBERS || !ways->member[place].interface)
		return NOT_THERE;
	member = &ways->member[place];
	port = port_of(member->interface);
	if (port)
		for (int queue = 0; queue < PRIORITIES; queue++)
			load += port->queued_bytes[queue];
	lives = ways->half_life_ns ? (now - member->load_ns) / ways->half_life_ns : 64;
	return lives < 64 ? load + (member->load >> lives) : load;
}

__noinline __u32 least_loaded(struct ways *ways, __u64 now)
{
	__u32 best = NO_MEMBER, first, place;
	__u64 least = NOT_THERE, load;

	if (!ways || !ways->members)
		return NO_MEMBER;
	first = ways->next % ways->members;
	ways->next = first + 1;
	for (int turn = 0; turn < MEMBERS; turn++) {
		if (turn >= ways->members)
			break;
		place = (first + turn) % ways->members & (MEMBERS - 1);
		load = load_of(ways, place, now);
		if (load < least) {
			best = place;
			least = load;
		}
	}
	return best;
}

static __always_inline __u32 by_chance(struct ways *ways)
{
	__u32 state = ways->random;

	state ^= state << 13;
	state ^= state >> 17;
	state ^= state << 5;
	ways->random = state;
	return ways->table[state % ways->size & (TABLE - 1)];
}

static __noinline __u32 by_flowlet(struct ways *ways, __u32 number, __u32 hash, __u64 now)
{
	__u32 key = number * FLOWLETS + (hash & (FLOWLETS - 1)), member;
	struct flowlet *known, new = {};

	if (!ways || !ways->size)
		return NO_MEMBER;
	known = bpf_map_lookup_elem(&flowlets, &key);
	if (known && now - known->last_ns < ways->gap_ns && ways->member[known->member & (MEMBERS - 1)].interface) {
		known->last_ns = now;
		return known->member & (MEMBERS - 1);
	}
	member = ways->by == BY_FLOWLET ? by_chance(ways) : least_loaded(ways, now);
	ways->flowlets++;
	new.last_ns = now;
	new.member = member;
	if (known)
		*known = new;
	else
		bpf_map_update_elem(&flowlets, &key, &new, BPF_ANY);
	return member;
}

#ifdef RULES
#include "port_rules.bpf.h"
#endif

/* The member that a frame takes; NO_MEMBER if none is left. */
static __noinline __u32 choose(struct ways *ways, __u32 number, __u32 hash, __u64 now, __u32 length)
{
	struct member *member;
	__u32 place;
	__u64 lives;

	if (!ways || !ways->size)
		return NO_MEMBER;
	switch (ways->by) {
	case BY_HASH:
		place = ways->table[hash % ways->size & (TABLE - 1)];
		break;
	case BY_FLOWLET:
	case BY_ADAPTIVE_FLOWLET:
		place = by_flowlet(ways, number, hash, now);
		break;
	case BY_TURNS:
		place = ways->table[ways->next % ways->size & (TABLE - 1)];
		ways->next = ways->next % ways->size + 1;
		break;
	case BY_CHANCE:
		place = by_chance(ways);
		break;
#ifdef RULES
	case BY_RULE:
		place = by_rule(ways, number, hash, now, length);
		break;
#endif
	default:
		place = least_loaded(ways, now);
	}
	if (place >= MEMBERS)
		return NO_MEMBER;
	member = &ways->member[place];
	member->frames++;
	member->octets += length;
	if (ways->half_life_ns) {
		lives = (now - member->load_ns) / ways->half_life_ns;
		member->load = lives < 64 ? member->load >> lives : 0;
		member->load_ns += lives * ways->half_life_ns;
		member->load += length;
	}
	return place;
}

static __noinline int way_of(struct __sk_buff *skb, __u32 number)
{
	struct ways *found = bpf_map_lookup_elem(&ways, &number);
	struct hashed hashed;
	__u32 hash = 0, place;

	if (!found)
		return 0;
#ifdef RULES
	if (found->by == BY_RULE) {
		read_hashed(skb, &hashed, found->fields);
		note_fields(&hashed);
		hash = hash_of(&hashed, found->fields, found->seed);
	}
#endif
	if (found->by <= BY_ADAPTIVE_FLOWLET) {
		read_hashed(skb, &hashed, found->fields);
		hash = hash_of(&hashed, found->fields, found->seed);
	}
	place = choose(found, number, hash, bpf_ktime_get_ns(), skb->len + (skb->vlan_present ? 4 : 0));
	return place < MEMBERS ? found->member[place].interface : 0;
}

static __always_inline int forward(struct __sk_buff *skb, const struct port *port)
{
	void *start = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	station key;
	__u32 *known, leaving;

	if (start + 8 > end)
		return NEXT;
	__builtin_memcpy(&key, start, 8);
	key = (key & 0xFFFFFFFFFFFFull) | (__u64)port->node << 48;
	known = bpf_map_lookup_elem(&stations, &key);
	if (!known)
		return NEXT;
	leaving = *known & ONE_OF ? way_of(skb, *known & ~ONE_OF) : *known;
	return !leaving || leaving == skb->ifindex ? DROP : bpf_redirect(leaving, 0);
}

/* A priority on which the far end does not do what this end needs is closed to all but what bridges tell each other. */
static __noinline int is_kept_out(struct __sk_buff *skb)
{
	struct port *port = port_of(skb->ifindex);
	struct found found = {};
	__u8 dot1p;

	if (!port || is_link_local(skb))
		return 0;
	look_at(skb, &found);
	dot1p = classify(port, &found);
	if (!(port->defended >> dot1p & 1))
		return 0;
	port->defended_frames[dot1p & 7]++;
	return 1;
}

/* Of a MAC control frame. */
static __always_inline __u16 opcode_of(struct __sk_buff *skb)
{
	__be16 opcode = 0xFFFF;

	bpf_skb_load_bytes(skb, 14, &opcode, sizeof(opcode));
	return bpf_ntohs(opcode);
}

SEC("tc")
int port_in(struct __sk_buff *skb)
{
	struct frame_event *event;
	struct port *port;
	void *ring;
	__u32 node, length = skb->len;
	__u16 opcode;

	port = port_of(skb->ifindex);
	if (!port)
		return NEXT;
	if (skb->protocol != bpf_htons(ETHERTYPE_MAC_CONTROL) || skb->vlan_present) {
		if (port->defended && is_kept_out(skb))
			return DROP;
		if (port->switched >= ROUTED) {
			struct found found;

			look_at(skb, &found);
			skb->mark = CAME_MAGIC | (skb->ifindex - FIRST_INTERFACE) << MARK_SLOT |
				    (__u32)classify(port, &found) << MARK_PRIORITY;
			return NEXT;
		}
		return port->switched ? forward(skb, port) : NEXT;
	}
	opcode = opcode_of(skb);
	node = port->node;
	ring = bpf_map_lookup_elem(&rings, &node);
	if (!ring)
		return DROP;
	port->seen_frames++;
	if (bpf_ringbuf_query(ring, BPF_RB_AVAIL_DATA) > RING_FOR_FRAMES)
		goto lost;
	event = bpf_ringbuf_reserve(ring, sizeof(*event), 0);
	if (!event)
		goto lost;
	event->event.time_ns = bpf_ktime_get_ns() + (opcode == OPCODE_PFC ? port->pause_ns : 0);
	event->event.kind = EVENT_FRAME;
	event->event.slot = skb->ifindex - FIRST_INTERFACE;
	event->event.priority = 0;
	event->event.reason = 0;
	event->event.length = length;
	event->event.shared = 0;
	event->event.headroom = 0;
	__builtin_memset(event->octets, 0, sizeof(event->octets));
	if (length >= FRAME_BYTES)
		bpf_skb_load_bytes(skb, 0, event->octets, FRAME_BYTES);
	else if (length >= 60)
		bpf_skb_load_bytes(skb, 0, event->octets, 60);
	else if (length)
		bpf_skb_load_bytes(skb, 0, event->octets, length & (FRAME_BYTES - 1));
	bpf_ringbuf_submit(event, BPF_RB_FORCE_WAKEUP);
	return DROP;
lost:
	port->lost_events++;
	return DROP;
}

/* In the middle of a cable: the two ends of one have indices that differ in the last bit. */
SEC("tc")
int cross(struct __sk_buff *skb)
{
	return bpf_redirect(skb->ifindex ^ 1, 0);
}

static __always_inline void write_dscp(struct __sk_buff *skb, struct found *found, __u8 dscp)
{
	__u8 octets[2];

	if (found->version == 4) {
		if (skb->len < found->ip + 12)
			return;
		octets[0] = found->octets[0];
		octets[1] = dscp << 2 | (found->octets[1] & 3);
		bpf_l3_csum_replace(skb, found->ip + 10, bpf_htons(found->octets[0] << 8 | found->octets[1]),
				    bpf_htons(octets[0] << 8 | octets[1]), 2);
	} else if (found->version == 6) {
		octets[0] = (found->octets[0] & 0xF0) | dscp >> 2;
		octets[1] = (found->octets[1] & 0x3F) | dscp << 6;
	} else {
		return;
	}
	bpf_skb_store_bytes(skb, found->ip, octets, 2, 0);
	found->dscp = dscp;
}

/* A tag inside the frame is first taken out of it: then the frame is one octet string of another shape. */
static __always_inline void write_pcp(struct __sk_buff *skb, struct found *found, __u8 pcp)
{
	__u16 tci = 0, type = bpf_htons(ETHERTYPE_VLAN);

	if (found->tagged) {
		if (found->pcp == pcp)
			return;
		if (skb->vlan_present) {
			tci = skb->vlan_tci;
			type = skb->vlan_proto;
		} else {
			type = skb->protocol;
			bpf_skb_load_bytes(skb, 14, &tci, 2);
			tci = bpf_ntohs(tci);
		}
		bpf_skb_vlan_pop(skb);
	}
	bpf_skb_vlan_push(skb, type, (tci & 0x1FFF) | (__u16)pcp << 13);
	found->tagged = 1;
	found->pcp = pcp;
}

/* What an entry for applications is about, as in testbed/switch/priority/applications.py; a port has a bit for each. */
enum about { TCP_PORT, UDP_PORT, SCTP_PORT, DCCP_PORT, DSCP_VALUE, TYPE, ANYTHING_ELSE };

#define PORTS (1 << TCP_PORT | 1 << UDP_PORT | 1 << SCTP_PORT | 1 << DCCP_PORT)
#define NO_ENTRY 0xFF

static __noinline __u8 entry_of(__u32 interface, __u32 about, __u32 id)
{
	application key = (__u64)(interface - FIRST_INTERFACE) << 32 | (about & 0xFF) << 16 | (id & 0xFFFF);
	__u8 *priority = bpf_map_lookup_elem(&applications, &key);

	return priority ? *priority & 7 : NO_ENTRY;
}

/* Rules E1 to E4 of testbed/switch/priority/applications.py. */
static __always_inline __u8 application_of(struct __sk_buff *skb, const struct port *out, const struct found *found)
{
	__u8 wanted = NO_ENTRY, protocol = 0, fragment[2] = {};
	__u32 at, about = ANYTHING_ELSE;
	__u16 ports[2];

	if (found->version && out->applications & PORTS) {
		if (found->version == 4) {
			at = found->ip + (found->octets[0] & 15) * 4;
			if (bpf_skb_load_bytes(skb, found->ip + 9, &protocol, 1) ||
			    bpf_skb_load_bytes(skb, found->ip + 6, fragment, 2) || fragment[0] & 0x1F || fragment[1])
				protocol = 0; /* only the first fragment has ports */
		} else {
			at = found->ip + 40;
			if (bpf_skb_load_bytes(skb, found->ip + 6, &protocol, 1))
				protocol = 0;
		}
		if (protocol == 6)
			about = TCP_PORT;
		else if (protocol == 17)
			about = UDP_PORT;
		else if (protocol == 132)
			about = SCTP_PORT;
		else if (protocol == 33)
			about = DCCP_PORT;
		if (about != ANYTHING_ELSE && !bpf_skb_load_bytes(skb, at, ports, sizeof(ports))) {
			wanted = entry_of(skb->ifindex, about, bpf_ntohs(ports[1]));
			if (wanted == NO_ENTRY)
				wanted = entry_of(skb->ifindex, about, bpf_ntohs(ports[0]));
		}
	}
	if (wanted == NO_ENTRY && found->version && out->applications & 1 << DSCP_VALUE)
		wanted = entry_of(skb->ifindex, DSCP_VALUE, found->dscp);
	if (wanted == NO_ENTRY && out->applications & 1 << TYPE)
		wanted = entry_of(skb->ifindex, TYPE, found->type);
	if (wanted == NO_ENTRY && out->applications & 1 << ANYTHING_ELSE &&
	    !(found->version && found->dscp) && !skb->priority)
		wanted = entry_of(skb->ifindex, ANYTHING_ELSE, 0);
	return wanted;
}

/* A frame of this node's own: rules H0 to H6 of testbed/switch/priority/marking.py. */
static __always_inline __u8 mark_own(struct __sk_buff *skb, const struct port *out, struct found *found)
{
	__u8 wanted = NO_ENTRY;

	look_at(skb, found);
	if (out->applications)
		wanted = application_of(skb, out, found);
	if (wanted != NO_ENTRY)
		; /* whatever the program asked for */
	else if (found->version && found->dscp)
		wanted = out->dscp_to_dot1p[found->dscp & 63] & 7;
	else
		wanted = skb->priority < PRIORITIES ? skb->priority : out->port_priority & 7;
	if (out->trust == TRUST_DSCP) {
		if (found->version && (out->dscp_to_dot1p[found->dscp & 63] & 7) != wanted &&
		    out->mark_dscp[wanted & 7] != UNCHANGED && !is_link_local(skb))
			write_dscp(skb, found, out->mark_dscp[wanted & 7]);
	} else if (out->trust == TRUST_DOT1P && !is_link_local(skb)) {
		write_pcp(skb, found, wanted);
	}
	return classify(out, found);
}

/* A packet that this router has put into an SRv6 tunnel: Linux takes the outer header's DSCP from IPv6 packets alone. */
static __always_inline void keep_priority(struct __sk_buff *skb, const struct port *out, struct found *found, __u8 dot1p)
{
	__u8 next;

	if (out->trust != TRUST_DSCP || found->version != 6 || found->dscp ||
	    (out->dscp_to_dot1p[0] & 7) == (dot1p & 7) || out->mark_dscp[dot1p & 7] == UNCHANGED)
		return;
	if (!bpf_skb_load_bytes(skb, found->ip + 6, &next, 1) && (next == 43 || next == 4 || next == 41))
		write_dscp(skb, found, out->mark_dscp[dot1p & 7]);
}

/* Rules L1 and L2 of testbed/switch/priority/lanes.py. NO_ENTRY: the frame has no SL, or there is no table for its way. */
static __noinline __u8 lane_of(__u32 input, __u32 output, __u32 sl)
{
	crossing way = input << 16 | (output & 0xFFFF);
	struct lanes *table = bpf_map_lookup_elem(&lanes, &way);

	return table ? table->vl[sl & (SLS - 1)] : NO_ENTRY;
}

/* Classes of a line and queues of a host have the queue's number in their last bits (testbed/net/fabric/queues.py). The length
 * is that at the end of port_out: nothing changes it until the frame leaves its queue. */
static __always_inline void queue_grows(struct port *out, __u32 queue, __u32 length)
{
	queue &= PRIORITIES - 1;
	__sync_fetch_and_add(&out->queued_bytes[queue], length);
	if (out->queued_bytes[queue] > out->most_queued_bytes[queue])
		out->most_queued_bytes[queue] = out->queued_bytes[queue];
}

/* Returns 1 if frames take their time on the port's line. */
__noinline int queue_shrinks(__u32 interface, __u32 queue, __u32 length)
{
	struct port *out = port_of(interface);

	queue &= PRIORITIES - 1;
	if (!out)
		return 0;
	if (out->queued_bytes[queue] >= length)
		__sync_fetch_and_add(&out->queued_bytes[queue], -(__u64)length);
	return out->octet_ps != 0;
}

#ifdef WAITS
/* The cells of a group that lie in a queue: the group's place (slot and priority) in the upper half of the key, then the
 * queue's. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, __u64);
} waits SEC(".maps");

/* A frame with this mark goes into a queue, or leaves it. */
__noinline int note_wait(__u32 mark, __u32 interface, __u32 queue, int leaves)
{
	__u32 way = (mark >> MARK_PRIORITY & WAITS_PLACE) << 16 |
		    (((interface - FIRST_INTERFACE) * PRIORITIES + (queue & (PRIORITIES - 1))) & WAITS_PLACE);
	__u64 cells = mark & MARK_CELLS, *held = bpf_map_lookup_elem(&waits, &way);

	if (held)
		__sync_fetch_and_add(held, leaves ? -cells : cells);
	else if (!leaves)
		bpf_map_update_elem(&waits, &way, &cells, BPF_ANY);
	return 0;
}
#else
#define note_wait(mark, interface, queue, leaves)
#endif

#ifdef TELEMETRY
/* What a port stamps, and what it has stamped. */
struct stamping {
	__u32 kbps;		/* of its line; 0: it stamps nothing */
	__u32 unused;
	__u64 stamped;
	__u64 no_room;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SLOTS);
	__type(key, __u32);
	__type(value, struct stamping);
} stampings SEC(".maps");

struct stamp {
	__be32 time_ns;
	__be32 queue_octets;
	__be32 sent_octets;
	__be32 kbps;
};

/* UDP, BTH and the head of an area: where what is asked for lies in them */
#define TO_AREA 24
#define BTH_AT 8
#define AREA_AT 20
#define HAS_AREA 0x40 /* in octet 8 of the BTH */
#define COLLECTS 0x11 /* version and kind */
#define MOST_STAMPS 15

/* Where UDP begins behind an IP header without options that is no fragment's; 0: there is none. */
static __always_inline __u32 udp_behind(struct __sk_buff *skb, __u32 ip)
{
	__u8 header[10];

	if (!ip || bpf_skb_load_bytes(skb, ip, header, sizeof(header)))
		return 0;
	if (header[0] >> 4 == 6)
		return header[6] == UDP ? ip + 40 : 0;
	return header[0] == 0x45 && !(header[6] & 0x3F) && !header[7] && header[9] == UDP ? ip + 20 : 0;
}

/* A packet that collects telemetry comes to a queue of this port, with so many octets before it. What lies in a queue has
 * not been sent. */
static __noinline int write_stamp(struct __sk_buff *skb, __u32 ip, __u32 queue)
{
	__u32 slot = skb->ifindex - FIRST_INTERFACE, udp = udp_behind(skb, ip), at;
	struct stamping *own = bpf_map_lookup_elem(&stampings, &slot);
	struct port *out = bpf_map_lookup_elem(&ports, &slot);
	__u8 headers[TO_AREA], head[2];
	struct stamp stamp;
	__u64 sent = 0;

	if (!own || !own->kbps || !out || !udp || bpf_skb_load_bytes(skb, udp, headers, sizeof(headers)))
		return 0;
	/* UDP without a checksum */
	if (headers[2] != ROCE_PORT >> 8 || headers[3] != (ROCE_PORT & 0xFF) || headers[6] || headers[7] ||
	    !(headers[BTH_AT + 8] & HAS_AREA) || headers[AREA_AT] != COLLECTS)
		return 0;
	head[0] = headers[AREA_AT + 2];
	head[1] = headers[AREA_AT + 3];
	if (head[0] >= headers[AREA_AT + 1] || head[0] >= MOST_STAMPS) {
		own->no_room++;
		head[1] |= 1;
		bpf_skb_store_bytes(skb, udp + AREA_AT + 2, head, sizeof(head), 0);
		return 0;
	}
	for (int each = 0; each < PRIORITIES; each++)
		sent += out->sent_bytes[each] - out->queued_bytes[each];
	stamp.time_ns = bpf_htonl((__u32)bpf_ktime_get_ns());
	stamp.queue_octets = bpf_htonl((__u32)out->queued_bytes[queue & (PRIORITIES - 1)]);
	stamp.sent_octets = bpf_htonl((__u32)sent);
#ifdef RULES
	stamp.kbps = bpf_htonl(stamp_of(skb, out, queue, own->kbps));
#else
	stamp.kbps = bpf_htonl(own->kbps);
#endif
	at = udp + TO_AREA + head[0] * sizeof(stamp);
	head[0]++;
	if (!bpf_skb_store_bytes(skb, at, &stamp, sizeof(stamp), 0) &&
	    !bpf_skb_store_bytes(skb, udp + AREA_AT + 2, head, sizeof(head), 0))
		own->stamped++;
	return 0;
}
#else
#define write_stamp(skb, ip, queue)
#endif

/* The queue in this place, a port's slot and then its number, if it has settings. */
static __always_inline struct queue *limited(__u32 place)
{
	struct queue *queue = bpf_map_lookup_elem(&queues, &place);

	return queue && queue->limited ? queue : NULL;
}

/* A priority of an ingress port, and the buffer that it is charged to. */
struct place {
	struct port *port;
	struct group *group;
	struct buffer *buffer;
	struct whole *whole;		/* or NULL */
};

static __always_inline int find(__u32 slot, __u32 priority, struct place *place)
{
	__u32 key = slot * PRIORITIES + (priority & 7), index;

	place->port = bpf_map_lookup_elem(&ports, &slot);
	place->group = bpf_map_lookup_elem(&groups, &key);
	if (!place->port || !place->group)
		return 0;
	place->whole = whole_of(place->group, slot);
	index = place->port->buffer;
	place->buffer = bpf_map_lookup_elem(&buffers, &index);
	return place->buffer != NULL;
}

/* Pause or resume the other lossless groups of a port, for one of its groups has paused or resumed all of it. Global, so
 * that the verifier looks at it once for all who call it, as the next one. */
__noinline int for_others(__u32 slot, __u32 but, __u32 kind)
{
	__u32 priority;

	for (priority = 0; priority < PRIORITIES; priority++) {
		struct place place;
		__u16 signal = 0;

		if (priority == but || !find(slot, priority, &place) || place.group->lossless != WITH_PORT)
			continue;
		bpf_spin_lock(&place.buffer->lock);
		if (kind == EVENT_XON) {
			signal = resume_with(place.buffer, place.group);
		} else if (!place.group->xoff) {
			stop(place.group);
			signal = EVENT_XOFF;
		}
		bpf_spin_unlock(&place.buffer->lock);
		if (signal)
			tell(place.port, place.group, what(signal, slot, priority, 0, 0));
	}
	return 0;
}

/* Rules H1 and H2, under the lock, for a group WITH_PORT. */
static __always_inline enum drop admit_with(struct whole *port, struct pool *pool, struct group *group, __u32 cells,
					    __u16 *signal)
{
	if (!port->paused) {
		__u32 free = free_cells(pool);
		__u32 unused = group->guaranteed - group->used[GUARANTEED];
		__u32 guaranteed = cells < unused ? cells : unused;
		__u32 rest = cells - guaranteed;
		__u64 limit = wide_threshold(group, free);

		if (!rest || (rest <= free && (__u64)port->used_shared + rest <= port->groups * limit)) {
			if (guaranteed)
				charge(pool, group, GUARANTEED, guaranteed);
			if (!rest)
				return ADMITTED;
			charge(pool, group, SHARED, rest);
			port->used_shared += rest;
			if (port->used_shared > port->most_shared)
				port->most_shared = port->used_shared;
			if (!group->xoff && (__u64)group->used[SHARED] + group->headroom > limit) {
				stop(group);
				*signal = EVENT_XOFF;
			}
			return ADMITTED;
		}
		port->paused = 1;
		port->pauses++;
		*signal = WHOLE_PORT;
	}
	if (!group->xoff) {
		stop(group);
		*signal |= EVENT_XOFF;
	}
	if ((__u64)port->used_headroom + cells > port->headroom)
		return DROP_HEADROOM;
	if ((__u64)pool->used[HEADROOM] + cells > pool->size[HEADROOM])
		return DROP_HEADROOM_POOL;
	charge(pool, group, HEADROOM, cells);
	port->used_headroom += cells;
	if (port->used_headroom > port->most_headroom)
		port->most_headroom = port->used_headroom;
	return ADMITTED;
}

/* `admit_to` for a group WITH_PORT, with what the agent is told. Returns what became of the frame, and the group's own
 * signal in the second octet. `waits` is the frame's queue as in `queues`, or NO_QUEUE. */
__noinline int admit_with_port(__u32 slot, __u32 priority, __u32 cells, __u32 waits, __u32 length)
{
	struct queue *queue = waits == NO_QUEUE ? NULL : limited(waits);
	enum drop result = ADMITTED;
	__u32 reserved = 0;
	struct place place;
	struct pool *pool;
	__u16 signal = 0;

	if (!find(slot, priority, &place) || !place.whole)
		return ADMITTED;
	bpf_spin_lock(&place.buffer->lock);
	pool = ingress_pool(place.buffer, place.group);
	if (queue)
		result = room(place.buffer, queue, cells, &reserved);
	if (result != ADMITTED) {
		queue->dropped_frames++;
		queue->dropped_cells += cells;
	} else {
		result = admit_with(place.whole, pool, place.group, cells, &signal);
	}
	if (result != ADMITTED) {
		drop_in(place.group, result, cells);
	} else {
		count_in(pool, place.group, cells);
		if (queue)
			enqueue(place.buffer, queue, cells, reserved);
	}
	bpf_spin_unlock(&place.buffer->lock);
	if (signal & ~WHOLE_PORT)
		tell(place.port, place.group, what(signal & ~WHOLE_PORT, slot, priority, 0, length));
	if (signal & WHOLE_PORT)
		for_others(slot, priority, EVENT_XOFF);
	return result | (signal & ~WHOLE_PORT) << 8;
}

#ifdef TRIM
#include "port_trimming.bpf.h"
#endif

SEC("tc")
int port_out(struct __sk_buff *skb)
{
	struct port *out = port_of(skb->ifindex), *in;
	struct found found = {};
	__u32 length, mark = skb->mark, slot = skb->ingress_ifindex - FIRST_INTERFACE;
	__u8 dot1p, local, steered = 0, vl = NO_ENTRY;
#ifdef TRIM
	__u8 is_rest = (mark & MARK_MAGIC_BITS) == REST_MAGIC, exempt = 0;
#endif

	if (!out)
		return NEXT;
	skb->mark = 0;
	if ((mark & MARK_MAGIC_BITS) == CAME_MAGIC)
		slot = mark >> MARK_SLOT & (SLOTS - 1);
#ifdef TRIM
	if (is_rest)
		slot = mark >> MARK_SLOT & (SLOTS - 1);
#endif
	in = bpf_map_lookup_elem(&ports, &slot);
#ifdef TRIM
	if (in && is_rest) {
		look_at(skb, &found);
		dot1p = mark >> MARK_PRIORITY & 7;
		local = mark & 7;
	} else
#endif
	if (in && (mark & MARK_MAGIC_BITS) == CAME_MAGIC) {
		look_at(skb, &found);
		dot1p = mark >> MARK_PRIORITY & 7;
		if (in->switched == ROUTED) {
			keep_priority(skb, out, &found, dot1p);
		} else if (skb->priority - FIRST_QUEUE < PRIORITIES) {
			dot1p = skb->priority - FIRST_QUEUE & 7;
			steered = 1;
		}
		local = in->dot1p_to_local[dot1p & 7] & 7;
	} else if (in) {
		look_at(skb, &found);
		dot1p = classify(in, &found);
		local = in->dot1p_to_local[dot1p & 7] & 7;
	} else if (skb->protocol == bpf_htons(ETHERTYPE_MAC_CONTROL) || skb->protocol == bpf_htons(ETHERTYPE_LLDP)) {
		/* Of this node's agent; somebody else's, with a tag or to one station, is a frame like any other. */
		skb->priority = out->control;
		if (skb->protocol == bpf_htons(ETHERTYPE_MAC_CONTROL) && opcode_of(skb) == OPCODE_PFC)
			skb->priority = out->pause;
		return NEXT;
	} else {
		dot1p = mark_own(skb, out, &found);
		local = out->dot1p_to_local[dot1p & 7] & 7;
	}
	if (out->lanes && found.version && (in || !is_link_local(skb))) {
		__u32 sl = found.dscp >> 3 | (found.dscp >> 2 & 1) << 3;

		vl = lane_of(in ? slot : OWN_FRAMES, skb->ifindex - FIRST_INTERFACE, sl);
		if (vl != NO_ENTRY && vl >= PRIORITIES) {
			out->vl15_frames[sl & (SLS - 1)]++;
			return DROP;
		}
		if (vl != NO_ENTRY)
			local = vl;
		asm volatile("" : "+r"(local)); /* the compiler knows that it is below 8, the verifier does not */
	}
	if (out->blocked >> local & 1) {
		out->blocked_frames[local & 7]++;
#ifdef TRIM
		if (is_rest)
			note_rest(skb->ifindex - FIRST_INTERFACE, mark >> REST_FULL, skb->len + (skb->vlan_present ? 4 : 0), 0);
#endif
		return DROP;
	}
	length = skb->len + (skb->vlan_present ? 4 : 0);
#ifdef TRIM
	if (in && !is_rest)
		exempt = found.version && is_exempt(skb, slot, found.version, found.dscp);
#endif
	if (in && in->charged) {
		__u8 charged = in->dot1p_to_group[dot1p & 7] & 7;
		__u32 key = slot * PRIORITIES + charged;
		__u32 index = in->buffer, cells, place;
		struct group *group = bpf_map_lookup_elem(&groups, &key);
		struct buffer *buffer = bpf_map_lookup_elem(&buffers, &index);
		struct queue *queue = NULL;
		__u16 signal = 0;
		enum drop result;

		if (!group || !buffer || !buffer->cell_bytes)
			return NEXT;
		if (out->counted) {
			place = (skb->ifindex - FIRST_INTERFACE) * PRIORITIES + (local & 7);
			queue = limited(place);
		}
		cells = (length + buffer->cell_bytes - 1) / buffer->cell_bytes;
#ifdef RULES
		if (!is_rest) {
			__u64 frame = (__u64)cells << 32 | (found.version == 6 ? found.octets[1] >> 4 & 3 : found.octets[1] & 3) << 16 |
				      (found.dscp & 63) << 8 | (local & 7);
			int verdict = verdict_of(skb, group, buffer, out, frame);

			if (verdict != RULE_ADMIT) {
				refuse(buffer, group, cells);
				if (verdict == RULE_TRIM && !exempt && group->lossless == LOSSY && trim(skb, slot, local)) {
					recount(key, NO_QUEUE, BY_OWN_RULE, cells, length | (local & 7) << FULL_QUEUE);
					return bpf_redirect(skb->ifindex, 0);
				}
				tell(in, group, what(EVENT_DROP, slot, charged, BY_OWN_RULE, length));
				return DROP;
			}
		}
#endif
		if (group->lossless == WITH_PORT) {
			result = admit_with_port(slot, charged, cells, queue ? place : NO_QUEUE, length) & 0xFF;
		} else {
			bpf_spin_lock(&buffer->lock);
			result = admit_to(buffer, group, queue, cells, &signal);
			bpf_spin_unlock(&buffer->lock);
		}
		if (signal)
			tell(in, group, what(signal, slot, charged, 0, length));
#ifdef TRIM
		if (result != ADMITTED && !is_rest && !exempt && group->lossless == LOSSY && trim(skb, slot, local)) {
			recount(key, queue ? place : NO_QUEUE, result, cells, length | (local & 7) << FULL_QUEUE);
			return bpf_redirect(skb->ifindex, 0);
		}
		if (is_rest && result != ADMITTED)
			note_rest(skb->ifindex - FIRST_INTERFACE, mark >> REST_FULL, length, 0);
#endif
		if (result != ADMITTED) {
			tell(in, group, what(EVENT_DROP, slot, charged, result, length));
			return DROP;
		}
		skb->mark = MARK_MAGIC | slot << MARK_SLOT | (__u32)charged << MARK_PRIORITY | (cells & MARK_CELLS);
		if (queue)
			skb->tc_index = WAITS_MAGIC | (place & WAITS_PLACE);
		else if (skb->tc_index)
			skb->tc_index = 0;
	}
	if (in && in->charged)
		write_stamp(skb, found.version ? found.ip : 0, out->queue[local & 7]);
	if (in) {
		__u8 dscp = in->rewrite_dscp[dot1p & 7], pcp = in->rewrite_dot1p[dot1p & 7];

#ifdef TRIM
		if (is_rest)
			dscp = UNCHANGED;
#endif
		if (dscp != UNCHANGED)
			write_dscp(skb, &found, dscp);
		if (pcp != UNCHANGED && found.tagged && vl == NO_ENTRY)
			write_pcp(skb, &found, pcp);
	}
	if (vl != NO_ENTRY) /* the next port finds the VL of this link in the tag, and the SL in the DSCP */
		write_pcp(skb, &found, vl);
	skb->priority = out->queue[local & 7];
	out->sent_frames[local & 7]++;
	out->sent_bytes[local & 7] += length;
	if (steered)
		out->steered_frames[local & 7]++;
#ifdef TRIM
	if (in && is_rest)
		note_rest(skb->ifindex - FIRST_INTERFACE, mark >> REST_FULL, length, 1);
#endif
	if (in && in->charged) {
		queue_grows(out, skb->priority, skb->len);
		note_wait(skb->mark, skb->ifindex, skb->priority, 0);
	}
	return NEXT;
}

/* Global, so that the verifier looks at it once for all who call it. */
__noinline int give_back(__u32 mark, __u32 waits)
{
	__u32 slot = mark >> MARK_SLOT & (SLOTS - 1), priority = mark >> MARK_PRIORITY & 7;
	struct queue *queue = waits & WAITS_MAGIC ? limited(waits & WAITS_PLACE) : NULL;
	struct place place;
	__u16 signal;

	if (!find(slot, priority, &place))
		return 0;
	bpf_spin_lock(&place.buffer->lock);
	if (queue)
		dequeue(place.buffer, queue, mark & MARK_CELLS);
	signal = release(place.buffer, place.whole, place.group, mark & MARK_CELLS);
	bpf_spin_unlock(&place.buffer->lock);
	if (signal) {
		if (signal & ~WHOLE_PORT)
			tell(place.port, place.group, what(signal & ~WHOLE_PORT, slot, priority, 0, 0));
		if (signal & WHOLE_PORT)
			for_others(slot, priority, EVENT_XON);
	}
	return 0;
}

/* Last bits have left: give back the cells of their frames. */
static int line_moves(void *map, __u32 *slot, struct line *line)
{
	__u64 now = bpf_ktime_get_ns(), next_ns = 0;
	int number;

	for (number = 0; number < HELD; number++) {
		struct held gone = {};

		bpf_spin_lock(&line->lock);
		next_ns = line->count ? line->held[line->first & (HELD - 1)].due_ns : 0;
		if (next_ns && next_ns <= now) {
			gone = line->held[line->first & (HELD - 1)];
			line->first++;
			line->count--;
		}
		bpf_spin_unlock(&line->lock);
		if (!gone.due_ns)
			break;
		give_back(gone.mark, gone.waits);
	}
	if (next_ns)
		bpf_timer_start(&line->timer, next_ns, AT_MOMENT);
	return 0;
}

/* The first bit of a frame leaves. Its cells, if it has a mark, are given back when its last bit has left. */
static __noinline int occupy(__u32 interface, __u32 mark, __u32 waits, __u32 length)
{
	__u32 slot = interface - FIRST_INTERFACE, is_first = 0;
	struct port *port = port_of(interface);
	struct line *line = bpf_map_lookup_elem(&lines, &slot);
	struct held early = {};
	__u64 now, due_ns;

	if (!port || !port->octet_ps || !line)
		return 0;
	now = bpf_ktime_get_ns();
	bpf_spin_lock(&line->lock);
	due_ns = (line->free_ns > now ? line->free_ns : now) + (__u64)(length + WIRE_OVERHEAD) * port->octet_ps / 1000;
	line->free_ns = due_ns;
	if (mark) {
		__u32 place;

		if (line->count == HELD) {
			early = line->held[line->first & (HELD - 1)];
			line->first++;
			line->count--;
		}
		place = (line->first + line->count) & (HELD - 1);
		line->held[place].due_ns = due_ns;
		line->held[place].mark = mark;
		line->held[place].waits = waits;
		is_first = !line->count++;
	}
	bpf_spin_unlock(&line->lock);
	if (early.due_ns)
		give_back(early.mark, early.waits);
	if (is_first)
		bpf_timer_start(&line->timer, due_ns, AT_MOMENT);
	return 0;
}

/* A frame leaves its queue: the kernel hands it to the device in the same breath. What passes the queues takes no time;
 * it has no class of the line as its priority. */
SEC("tp_btf/net_dev_start_xmit")
int BPF_PROG(left, struct sk_buff *skb)
{
	__u32 mark = skb->mark;
	int takes_time;

	if ((mark & MARK_MAGIC_BITS) != MARK_MAGIC)
		return has_lines && skb->priority - FIRST_QUEUE < CLASSES ? occupy(skb->dev->ifindex, 0, 0, skb->len) : 0;
	takes_time = queue_shrinks(skb->dev->ifindex, skb->priority, skb->len);
	note_wait(mark, skb->dev->ifindex, skb->priority, 1);
	return has_lines && takes_time ? occupy(skb->dev->ifindex, mark, skb->tc_index, skb->len) : give_back(mark, skb->tc_index);
}

/* A frame that is passing a cable's middle came in by one of its interfaces; one that was to come in has it as its own. */
static __always_inline void count_death(struct sk_buff *skb, enum death death)
{
	__u32 slot = skb->skb_iif - FIRST_MIDDLE, interface;
	struct port *port;

	if (skb->protocol == bpf_htons(ETHERTYPE_MAC_CONTROL) || skb->protocol == bpf_htons(ETHERTYPE_LLDP))
		return;
	if (slot < SLOTS) {
		death = IN_CABLE;
	} else {
		interface = skb->dev->ifindex;
		slot = interface - (interface < FIRST_MIDDLE ? FIRST_INTERFACE : FIRST_MIDDLE);
	}
	port = bpf_map_lookup_elem(&ports, &slot);
	if (port)
		port->died_frames[death & (DEATH_SLOTS - 1)]++;
}

/* Only deaths inside a queue, a drop by the queue itself or the one in front of it, or its reset, give cells back: what
 * dies later has done so already. */
SEC("tp_btf/kfree_skb")
int BPF_PROG(freed, struct sk_buff *skb, void *location, int reason)
{
	__u32 mark = skb->mark;
	enum death death;

	if (reason == bpf_core_enum_value(enum skb_drop_reason, SKB_DROP_REASON_QDISC_DROP) ||
	    (__u64)location - overflow_location < OVERFLOW_FUNCTION_BYTES)
		death = BY_QUEUE;
	else if ((__u64)location - reset_location < RESET_FUNCTION_BYTES ||
		 (__u64)location - shown_location < SHOWN_FUNCTION_BYTES)
		death = WITH_QUEUE;
	else if ((__u64)location - link_location < LINK_FUNCTION_BYTES ||
		 reason == bpf_core_enum_value(enum skb_drop_reason, SKB_DROP_REASON_DEV_READY))
		death = skb->len > skb->dev->mtu + BESIDE_MTU ? TOO_LONG : AT_LINK;
	else
		return 0;
	count_death(skb, death);
	if ((mark & MARK_MAGIC_BITS) == MARK_MAGIC && death < AT_LINK) {
		queue_shrinks(skb->dev->ifindex, skb->priority, skb->len);
		note_wait(mark, skb->dev->ifindex, skb->priority, 1);
		give_back(mark, skb->tc_index);
	}
	return 0;
}

/* Let a port have a line that frames are on for a while: before there are any. Fails where BPF has no timers. */
SEC("syscall")
int set_up_line(__u32 *slot)
{
	__u32 key = *slot;
	struct line *line = bpf_map_lookup_elem(&lines, &key);

	return line ? -bpf_timer_init(&line->timer, &lines, CLOCK_MONOTONIC) ?: -bpf_timer_set_callback(&line->timer, line_moves)
		    : 1;
}

/* What an agent, or a test, asks of a group directly. */
struct request {
	__u32 slot;
	__u32 priority;
	__u32 cells;
	__u32 queue;	/* where the frame waits, as in `queues`, or NO_QUEUE */
	__u32 signal;	/* out: EVENT_XOFF, EVENT_XON or 0 */
	__u32 result;	/* out: ADMITTED or the reason of the drop */
};

enum action { RECHECK, ADMIT, RELEASE };

static __always_inline int act(struct request *request, enum action action)
{
	__u32 cells = request->cells, result = ADMITTED;
	struct queue *queue = request->queue == NO_QUEUE ? NULL : limited(request->queue);
	struct place place;
	__u16 signal = 0;

	if (!find(request->slot, request->priority, &place))
		return 1;
	if (action == ADMIT && place.whole) {
		result = admit_with_port(request->slot, request->priority, cells, request->queue, 0);
		request->signal = result >> 8 & 0xFF;
		request->result = result & 0xFF;
		return 0;
	}
	bpf_spin_lock(&place.buffer->lock);
	if (action == RECHECK)
		signal = resume_of(place.buffer, place.whole, place.group) & ~WHOLE_PORT;
	else if (action == ADMIT)
		result = admit_to(place.buffer, place.group, queue, cells, &signal);
	else {
		if (queue)
			dequeue(place.buffer, queue, cells);
		signal = release(place.buffer, place.whole, place.group, cells);
	}
	bpf_spin_unlock(&place.buffer->lock);
	if (signal & WHOLE_PORT)
		for_others(request->slot, request->priority, EVENT_XON);
	request->signal = signal & ~WHOLE_PORT;
	request->result = result;
	return 0;
}

/* XON if the group may resume by now, because others made room: asked before PAUSE is sent again. */
SEC("syscall")
int recheck(struct request *request)
{
	return act(request, RECHECK);
}

/* The two steps by themselves, for the test that compares them with the reference. */
SEC("syscall")
int admit_cells(struct request *request)
{
	return act(request, ADMIT);
}

SEC("syscall")
int release_cells(struct request *request)
{
	return act(request, RELEASE);
}

/* A choice by itself, for the test that compares it with the reference. */
struct choice {
	__u32 number;
	__u32 length;
	__u64 now_ns;
	struct hashed hashed;
	__u32 hash;
};

SEC("syscall")
int choose_way(struct choice *wanted)
{
	__u32 number = wanted->number;
	struct ways *found = bpf_map_lookup_elem(&ways, &number);
	struct hashed hashed = wanted->hashed;

	if (!found)
		return NO_MEMBER;
	wanted->hash = hash_of(&hashed, found->fields, found->seed);
#ifdef RULES
	note_fields(&hashed);
#endif
	return choose(found, number, wanted->hash, wanted->now_ns, wanted->length);
}

/* Other settings while frames are inside: BufferModel.configure, in steps of which each leaves a buffer that works. The
 * caller makes the pools large enough for old and new, sets each group, and then the pools (see PortProgram). */
struct limits {
	__u32 slot;
	__u32 priority;
	__u32 settings[7]; /* the first seven fields of a group; its pool stays */
};

SEC("syscall")
int limit(struct limits *wanted)
{
	__u32 held, guaranteed;
	struct limits new = *wanted;
	struct place place;
	struct group *group;
	struct pool *pool;
	struct whole *whole;

	if (!find(wanted->slot, wanted->priority, &place))
		return 1;
	group = place.group;
	whole = bpf_map_lookup_elem(&wholes, &new.slot);
	if (!whole)
		return 1;
	bpf_spin_lock(&place.buffer->lock);
	pool = ingress_pool(place.buffer, group);
	if (group->lossless == WITH_PORT) {
		whole->used_shared -= group->used[SHARED];
		whole->used_headroom -= group->used[HEADROOM];
	}
	group->lossless = new.settings[0];
	group->guaranteed = new.settings[1];
	group->alpha_numerator = new.settings[2];
	group->alpha_denominator = new.settings[3];
	group->xon_offset = new.settings[4];
	group->headroom = new.settings[5];
	group->xon = new.settings[6];
	held = group->used[GUARANTEED] + group->used[SHARED];
	guaranteed = held < group->guaranteed ? held : group->guaranteed;
	pool->used[GUARANTEED] += guaranteed - group->used[GUARANTEED];
	pool->used[SHARED] += held - guaranteed - group->used[SHARED];
	group->used[GUARANTEED] = guaranteed;
	group->used[SHARED] = held - guaranteed;
	if (group->lossless == WITH_PORT) {
		whole->used_shared += group->used[SHARED];
		whole->used_headroom += group->used[HEADROOM];
	}
	if (group->used[GUARANTEED] > group->high_water[GUARANTEED])
		group->high_water[GUARANTEED] = group->used[GUARANTEED];
	if (group->used[SHARED] > group->high_water[SHARED])
		group->high_water[SHARED] = group->used[SHARED];
	bpf_spin_unlock(&place.buffer->lock);
	return 0;
}

struct sizes {
	__u32 buffer;
	__u32 pool;
	__u32 size[KINDS];
};

SEC("syscall")
int resize(struct sizes *wanted)
{
	__u32 index = wanted->buffer, guaranteed = wanted->size[GUARANTEED], shared = wanted->size[SHARED];
	__u32 headroom = wanted->size[HEADROOM], number = wanted->pool & (2 * POOLS - 1);
	struct buffer *buffer = bpf_map_lookup_elem(&buffers, &index);
	struct pool *pool;

	if (!buffer)
		return 1;
	bpf_spin_lock(&buffer->lock);
	pool = &buffer->pools[number];
	pool->size[GUARANTEED] = guaranteed;
	pool->size[SHARED] = shared;
	pool->size[HEADROOM] = headroom;
	if (pool->used[GUARANTEED] > pool->high_water[GUARANTEED])
		pool->high_water[GUARANTEED] = pool->used[GUARANTEED];
	if (pool->used[SHARED] > pool->high_water[SHARED])
		pool->high_water[SHARED] = pool->used[SHARED];
	bpf_spin_unlock(&buffer->lock);
	return 0;
}

/* Watermarks begin anew, with what is in use at this moment; those from before are given out. */
enum watermark_of { OF_GROUP, OF_QUEUE, OF_POOL };

struct watermark {
	__u32 of;
	__u32 buffer;
	__u32 number;			/* of the group or queue (slot and priority), or of the pool */
	__u32 high_water[KINDS];	/* out */
	__u32 most_cells;		/* out */
};

SEC("syscall")
int clear_watermark(struct watermark *wanted)
{
	__u32 of = wanted->of, index = wanted->buffer, number = wanted->number;
	__u32 guaranteed, shared, headroom = 0, most;
	struct buffer *buffer = bpf_map_lookup_elem(&buffers, &index);

	if (!buffer)
		return 1;
	if (of == OF_GROUP) {
		struct group *group = bpf_map_lookup_elem(&groups, &number);

		if (!group)
			return 1;
		bpf_spin_lock(&buffer->lock);
		guaranteed = group->high_water[GUARANTEED];
		shared = group->high_water[SHARED];
		headroom = group->high_water[HEADROOM];
		most = group->most_cells;
		group->high_water[GUARANTEED] = group->used[GUARANTEED];
		group->high_water[SHARED] = group->used[SHARED];
		group->high_water[HEADROOM] = group->used[HEADROOM];
		group->most_cells = group->used[GUARANTEED] + group->used[SHARED] + group->used[HEADROOM];
		bpf_spin_unlock(&buffer->lock);
	} else if (of == OF_QUEUE) {
		struct queue *queue = bpf_map_lookup_elem(&queues, &number);

		if (!queue)
			return 1;
		bpf_spin_lock(&buffer->lock);
		guaranteed = queue->high_water[GUARANTEED];
		shared = queue->high_water[SHARED];
		most = queue->most_cells;
		queue->high_water[GUARANTEED] = queue->used[GUARANTEED];
		queue->high_water[SHARED] = queue->used[SHARED];
		queue->most_cells = queue->used[GUARANTEED] + queue->used[SHARED];
		bpf_spin_unlock(&buffer->lock);
	} else {
		struct pool *pool;

		number &= 2 * POOLS - 1;
		bpf_spin_lock(&buffer->lock);
		pool = &buffer->pools[number];
		guaranteed = pool->high_water[GUARANTEED];
		shared = pool->high_water[SHARED];
		headroom = pool->high_water[HEADROOM];
		most = pool->most_cells;
		pool->high_water[GUARANTEED] = pool->used[GUARANTEED];
		pool->high_water[SHARED] = pool->used[SHARED];
		pool->high_water[HEADROOM] = pool->used[HEADROOM];
		pool->most_cells = pool->used[GUARANTEED] + pool->used[SHARED] + pool->used[HEADROOM];
		bpf_spin_unlock(&buffer->lock);
	}
	wanted->high_water[GUARANTEED] = guaranteed;
	wanted->high_water[SHARED] = shared;
	wanted->high_water[HEADROOM] = headroom;
	wanted->most_cells = most;
	return 0;
}

/* Run once after loading. */
SEC("syscall")
int prepare(struct request *request)
{
	__u64 location = 0;

	if (bpf_kallsyms_lookup_name(RESET_FUNCTION, sizeof(RESET_FUNCTION), 0, &location))
		return 1;
	reset_location = location;
	if (bpf_kallsyms_lookup_name(SHOWN_FUNCTION, sizeof(SHOWN_FUNCTION), 0, &location))
		return 2;
	shown_location = location;
	if (!bpf_kallsyms_lookup_name(OVERFLOW_FUNCTION, sizeof(OVERFLOW_FUNCTION), 0, &location))
		overflow_location = location;
	if (bpf_kallsyms_lookup_name(LINK_FUNCTION, sizeof(LINK_FUNCTION), 0, &location) &&
	    bpf_kallsyms_lookup_name(LINK_FUNCTION_INLINED, sizeof(LINK_FUNCTION_INLINED), 0, &location))
		return 3;
	link_location = location;
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
