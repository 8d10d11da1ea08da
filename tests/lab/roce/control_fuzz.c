/* Random programs for the interpreter of rate controls and of rules of switches: what it accepts may have faults, and touches nothing but its
 * frame. Built with the sanitizers of addresses and of undefined behaviour by test_control_code.py. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define XC_FUEL 200
#include "xoff_control_vm.c"

static u64 seed;

static u32 drawn(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed >> 32;
}

static u32 field(char form, const struct xc_program *made, u32 n)
{
	u32 most = form == 't' ? made->count : made->cells;

	if (!(drawn() % 400))
		return drawn() & 0xffff;	/* mostly one that does not fit */
	if (form == '.')
		return 0;
	if ((form == 'R' || form == 'W') && n < most)
		most -= n;
	return drawn() % most;
}

static union xc_number number(void)
{
	static const double odd[] = { 0.0, -0.0, 1e308, -1e308, 9.3e18, 0.5, -1.5, 1.0 / 0.0, -1.0 / 0.0, 0.0 / 0.0 };
	union xc_number made = { .i = (s64)(drawn() % 9) - 4 };

	switch (drawn() % 4) {
	case 0:
		made.i = (s64)((u64)drawn() << 32 | drawn());
		break;
	case 1:
		made.f = odd[drawn() % (sizeof(odd) / sizeof(*odd))];
		break;
	case 2:
		made.f = (double)(s64)drawn() / 1000;
		break;
	}
	return made;
}

#define WAYS_CELLS (XC_MORE + XC_COLUMNS * XC_WAYS)

/* What qdisc red and the port program ask a rule, as xoff_rule_kern.c has it */
static int asked_of_rules(const struct xc_program *made, union xc_number *frame)
{
	static s64 more[XC_MORE], rows[XC_COLUMNS * XC_WAYS], told[20];
	u32 answer, stopped = 0, faults = 0, i;
	s64 said;

	for (i = 0; i < 20; i++)
		told[i] = number().i;
	for (i = 0; i < XC_COLUMNS * XC_WAYS; i++)
		rows[i] = number().i;
	xs_tell_ways(made, frame, more, rows, drawn() % (2 * XC_WAYS));
	for (i = 0; i < XC_SHOW; i++) {
		if (made->entries[i] == XC_NO_ENTRY)
			continue;
		faults += xs_told(made, i, frame, told, drawn() % 2 ? XC_STATE - XS_NOW : drawn() % 20, &said, &stopped) != 0;
		faults += xs_ask(made, i, frame, &(struct xs_frame){ .now_ns = drawn(), .queue = drawn() }, &answer,
				 &stopped) != 0;
		if (stopped >= made->count)
			abort();
	}
	return faults;
}

int main(int argc, char **argv)
{
	long wanted = atol(argv[1]), accepted = 0, faults = 0, i;
	(void)argc;

	seed = strtoull(argv[2], NULL, 0) | 1;
	for (i = 0; i < wanted; i++) {
		u32 count = 2 + drawn() % 40, cells = XC_FIRST + drawn() % (drawn() % 8 ? 80 : 400), stopped = 0, j;
		struct xc_op *code = malloc(count * sizeof(*code));
		union xc_number *frame = malloc(cells * sizeof(*frame));
		struct xc_program made = { .count = count, .cells = cells, .code = code };

		for (j = 0; j < XC_ENTRIES; j++)
			made.entries[j] = drawn() % 3 ? drawn() % count : XC_NO_ENTRY;
		made.stamps = cells > XC_FIRST + 4 * XC_STAMPS ? cells - 4 * XC_STAMPS : 0;
		made.more = drawn() % 50 ? cells > XC_FIRST + WAYS_CELLS ? cells - WAYS_CELLS : 0 : drawn();
		for (j = 0; j < count; j++) {
			const char *form = forms[code[j].op = drawn() % XC_OPERATIONS];

			code[j].n = code[j].op == XC_FAIL || form[0] == 'W' || form[1] == 'R' ? 1 + drawn() % 12 : 0;
			code[j].dst = field(form[0], &made, code[j].n);
			code[j].a = field(form[1], &made, code[j].n);
			code[j].b = field(form[2], &made, code[j].n);
		}
		code[count - 1] = (struct xc_op) { .op = XC_RET };
		for (j = 0; j < cells; j++)
			frame[j] = number();
		if (xc_fits(&made)) {
			static u8 area[16 * 40];
			struct xr_queue_pair *pair = calloc(1, sizeof(*pair));
			double state[XR_STATE];

			accepted++;
			pair->program = &made;
			pair->frame = frame;
			for (j = 0; j < XC_SHOW; j++)
				if (made.entries[j] != XC_NO_ENTRY) {
					pair->rate.fault = 0;
					xc_tell(pair, &(struct xr_event) {
						.kind = j, .now_ns = drawn(), .octets = drawn(), .stamps = area,
						.stamps_count = drawn() % 40,
					});
					faults += pair->rate.fault != 0;
				}
			faults += asked_of_rules(&made, frame);
			xc_show(&made, frame, 5, state);
			faults += xc_run(&made, drawn() % count, frame, &stopped) != 0;
			if (stopped >= count)
				abort();
			free(pair);
		}
		free(code);
		free(frame);
	}
	printf("%ld of %ld accepted, %ld faults\n", accepted, wanted, faults);
	return 0;
}
