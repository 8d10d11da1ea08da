// SPDX-License-Identifier: GPL-2.0
/*
 * The rules of xoff_line_rules.h as a library, for a test that compares them with Python: one cable, and lists of the
 * frames that were passed on and lost.
 */
#include <stdbool.h>
#include <stdlib.h>

#include "xoff_line_rules.h"

struct xl_outcome {
	s64 at_ns;
	u64 frame;
	u32 number, is_lost;
};

struct xl_tried {
	struct xl_cable cable;
	struct xl_outcome *outcomes;
	u64 count, most, noted;
};

static u64 used;

static void *xl_allocate(u32 size)
{
	used++;
	return calloc(1, size);
}

static void xl_free(void *memory)
{
	used--;
	free(memory);
}

static u64 xl_multiplied(u64 one, u64 other, u64 divisor)
{
	return (unsigned __int128)one * other / divisor;
}

static void xl_add(struct xl_cable *cable, u32 number, struct xl_frame *frame, s64 at_ns, u32 is_lost)
{
	struct xl_tried *tried = (struct xl_tried *)cable;

	if (tried->count == tried->most)
		abort();
	tried->outcomes[tried->count++] = (struct xl_outcome) { at_ns, (u64)frame->content, number, is_lost };
}

static void xl_pass(struct xl_cable *cable, u32 number, struct xl_frame *frame, s64 now_ns)
{
	xl_add(cable, number, frame, now_ns, 0);
}

static void xl_lose(struct xl_cable *cable, u32 number, struct xl_frame *frame)
{
	xl_add(cable, number, frame, 0, 1);
}

static void xl_note(struct xl_cable *cable, u32 number, s64 now_ns, const struct xl_carried *carried)
{
	struct xl_tried *tried = (struct xl_tried *)cable;

	tried->noted++;
}

struct xl_tried *xl_new(const struct xl_settings *given, struct xl_outcome *outcomes, u64 most)
{
	struct xl_tried *tried = calloc(1, sizeof(*tried));
	u32 number;

	tried->outcomes = outcomes;
	tried->most = most;
	for (number = 0; number < 2; number++) {
		tried->cable.ends[number].given = given[number];
		xl_prepare(&tried->cable.ends[number]);
	}
	for (number = 0; number < 2; number++)
		if (given[number].has_llr & XL_SENDS)
			xl_start(&tried->cable, number, 0);
	return tried;
}

void xl_try_offer(struct xl_tried *tried, u32 number, u64 content, u32 length, u32 is_eligible, s64 now_ns)
{
	struct xl_frame *frame = xl_allocate(sizeof(*frame));

	frame->content = (void *)content;
	frame->length = length;
	frame->users = 1;
	xl_advance(&tried->cable, now_ns);
	xl_offer(&tried->cable, number, frame, is_eligible, now_ns);
}

void xl_try_advance(struct xl_tried *tried, s64 until_ns)
{
	xl_advance(&tried->cable, until_ns);
}

void xl_try_change(struct xl_tried *tried, u32 number, const struct xl_settings *given, s64 now_ns)
{
	xl_advance(&tried->cable, now_ns);
	xl_change(&tried->cable, number, given, now_ns);
}

void xl_try_reset(struct xl_tried *tried, u32 number)
{
	xl_reset(&tried->cable, number);
}

u64 xl_try_report(const struct xl_tried *tried, struct xl_report *reports)
{
	u32 number;

	for (number = 0; number < 2; number++)
		reports[number] = xl_reported(&tried->cable.ends[number]);
	return tried->count;
}

/* Free it; return how many allocations of all cables there still are */
u64 xl_end_try(struct xl_tried *tried)
{
	xl_reset(&tried->cable, 0);
	xl_reset(&tried->cable, 1);
	free(tried);
	return used;
}
