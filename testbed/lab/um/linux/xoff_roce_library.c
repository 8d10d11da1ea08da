// SPDX-License-Identifier: GPL-2.0
/*
 * The protocol of xoff_roce_user.c as a library, for the test that compares it with testbed/roce: one queue pair with
 * regions of content, of a sink and of words, and one more that is there to be invalidated, and all that a test asks it. The interpreter of rate controls is part of it.
 */
#include <stdlib.h>
#include <string.h>

typedef int s32;
#include "xoff_roce_device.h"
#include "xoff_control_vm.c"

#define XL_WORDS 8

struct xl {
	struct xr_settings settings;
	struct xr_memory memory;
	struct xr_region regions[4];
	u64 words[XL_WORDS];
	struct xr_queue_pair pair;
	void *room;
	u8 *out;
	u32 *lengths;
	int many;
};

struct xl *xl_new(const struct xr_settings *settings, const struct xr_add *given, const u8 *block,
		  void (*told)(struct xr_queue_pair *pair, const struct xr_event *event), struct xr_receives *receives)
{
	struct xl *made = calloc(1, sizeof(*made));
	u32 *known = malloc((XR_BLOCK / 8 + 1024) * sizeof(*known));

	xr_tables();
	xr_prepare_memory(block, settings->mtu, known, known + XR_BLOCK / 8);
	made->settings = *settings;
	made->memory = (struct xr_memory) {
		.block = block, .known = known, .shift = known + XR_BLOCK / 8, .regions = made->regions, .count = 4,
		.first_key = XR_FIRST_KEY,
	};
	made->regions[0] = (struct xr_region) { .kind = XR_CONTENT, .has_content = 1 };
	made->regions[1] = (struct xr_region) { .kind = XR_SINK, .has_content = 1, .as_expected = 1 };
	made->regions[2] = (struct xr_region) { .kind = XR_WORDS, .words = made->words, .size = sizeof(made->words) };
	made->regions[3] = (struct xr_region) { .kind = XR_CONTENT };
	made->regions[0].size = made->regions[1].size = 1ULL << 62;
	made->regions[0].start = made->regions[1].start = given->content;
	made->pair.number = given->number;
	made->pair.far_number = given->far_number;
	memcpy(made->pair.address, given->address, sizeof(given->address));
	memcpy(made->pair.far_address, given->far_address, sizeof(given->far_address));
	made->pair.is_ipv6 = given->is_ipv6;
	made->pair.service = given->service;
	made->pair.q_key = given->q_key;
	if (given->service) {
		made->regions[1].kind = XR_SCATTERED;
		made->pair.responder.message = given->message;
	}
	made->pair.port = given->port;
	made->pair.far_port = given->far_port;
	made->pair.settings = &made->settings;
	made->pair.memory = &made->memory;
	made->pair.rate = given->rate;
	made->pair.nic = given->nic;
	made->pair.tell = told;
	made->pair.responder.receive_into = &made->regions[1];
	made->pair.responder.receives = receives;
	made->room = calloc(1, xr_room(&given->nic, &given->rate, settings) + 1);
	xr_start(&made->pair, given->first, given->far_first, given->line_bps, made->room);
	return made;
}

void xl_end(struct xl *of)
{
	free(of->room);
	free((void *)of->memory.known);
	free(of);
}

/* Give it a rate control that is code, before anything has happened */
void xl_control(struct xl *of, const struct xc_program *program, void *frame)
{
	of->pair.program = program;
	of->pair.frame = frame;
	of->pair.tell = xc_tell;
}

struct xr_rate *xl_rate(struct xl *of)
{
	return &of->pair.rate;
}

int xl_post(struct xl *of, u32 operation, u64 length, u64 local, u64 remote, u32 key, int region, s64 immediate,
	    s64 invalidate, u64 data, u64 compare, const struct xr_handle *to, s64 now_ns)
{
	struct xr_work work = {
		.operation = operation, .local = &of->regions[region], .length = length, .local_address = local,
		.remote_address = remote, .r_key = key, .has_immediate = immediate >= 0,
		.has_invalidate = invalidate >= 0, .immediate = immediate >= 0 ? immediate : invalidate,
		.data = data, .compare = compare, .to = to,
	};

	return xr_post(&of->pair, &work, now_ns);
}

int xl_receive(struct xl *of, const u8 *datagram, u32 length, u32 ds_field, s64 now_ns)
{
	return xr_receive(&of->pair, datagram, length, ds_field, now_ns);
}

static void keep(void *context, const struct xr_packet *packet)
{
	struct xl *of = context;
	u8 *at = of->out;

	memcpy(at, packet->head, packet->head_length);
	at += packet->head_length;
	if (packet->length)
		memcpy(at, packet->payload, packet->length);
	memset(at + packet->length, 0, packet->padding);
	at += packet->length + packet->padding;
	memcpy(at, &packet->icrc, 4);
	of->lengths[of->many++] = at + 4 - of->out;
	of->out = at + 4;
}

/* The datagrams go to @out, one behind the other, and their lengths to @lengths; how many */
int xl_transmit(struct xl *of, s64 now_ns, int most, u8 *out, u32 *lengths)
{
	of->out = out;
	of->lengths = lengths;
	of->many = 0;
	if (most)
		xr_transmit(&of->pair, now_ns, most, keep, of);
	else
		xr_notification(&of->pair, now_ns, keep, of);
	return of->many;
}

s64 xl_deadline(const struct xl *of)
{
	return xr_deadline(&of->pair);
}

void xl_cnp(struct xl *of, s64 now_ns)
{
	xr_on_cnp(&of->pair, now_ns);
}

/* Counters, the failure, the words, and the rate as it is now */
void xl_state(const struct xl *of, struct xr_report *made, double *rate, u64 *words)
{
	const struct xr_queue_pair *pair = &of->pair;

	*made = (struct xr_report) {
		.counters = pair->counters, .failure = pair->failure,
		.received = of->regions[1].received, .as_expected = of->regions[1].as_expected,
		.packets = pair->requester.count,
	};
	memcpy(words, of->words, sizeof(of->words));
	rate[0] = pair->rate.rate_bps;
	rate[1] = pair->rate.target_bps;
	rate[2] = pair->rate.alpha;
	rate[3] = pair->rate.gradient;
}
