// SPDX-License-Identifier: GPL-2.0
/*
 * The interpreter of classes of one's own (xoff_control_vm.h). Like xoff_roce_user.c it is compiled as code of the
 * host's side, because it computes with floating point, and as a library.
 *
 * Stated in: testbed/bytecode/code.py, testbed/roce/control/cells.py, testbed/switch/rules/rule_code.py,
 * testbed/switch/rules/way_code.py.
 * Compared by: tests/lab/roce/test_control_code.py, tests/lab/rules/test_rule_code.py, tests/lab/rules/test_hook_code.py.
 */
#include "xoff_control_vm.h"

#define LEAST_RATE 1e-4		/* b/s: the time of a packet is still a whole number of ns */
#define EXACT (1LL << 53)	/* up to here a double is every whole number */
#define TOO_LARGE 9223372036854775808.0	/* 2^63 */
#define LEAST_NUMBER (-XR_NEVER - 1)

static const char *const forms[] = {
#define FORM(name, form) form,
	XC_OPS(FORM)
#undef FORM
};

static int field_fits(const struct xc_program *program, char form, u32 field, u32 n)
{
	switch (form) {
	case 'c':
	case 'w':
		return field < program->cells;
	case 'R':
	case 'W':
		return n && field + n <= program->cells;
	case 't':
		return field < program->count;
	}
	return !field;
}

/* May this program run, with a frame of as many cells as it says? */
int xc_fits(const struct xc_program *program)
{
	u32 i;

	if (!program->count || program->count > XC_MOST_CODE || program->cells < XC_FIRST ||
	    program->cells > XC_MOST_CELLS || program->code[program->count - 1].op != XC_RET)
		return 0;
	if (program->stamps && (program->stamps < XC_FIRST || program->stamps + 4 * XC_STAMPS > program->cells ||
				program->stamps > program->cells))
		return 0;
	if (program->more && (program->more < XC_FIRST || program->more > program->cells ||
			      program->more + XC_MORE + XC_COLUMNS * XC_WAYS > program->cells))
		return 0;
	for (i = 0; i < XC_ENTRIES; i++)
		if (program->entries[i] != XC_NO_ENTRY && program->entries[i] >= program->count)
			return 0;
	for (i = 0; i < program->count; i++) {
		const struct xc_op *op = &program->code[i];
		const char *form;

		if (op->op >= XC_OPERATIONS)
			return 0;
		form = forms[op->op];
		if (op->n && op->op != XC_FAIL && form[0] != 'W' && form[1] != 'R')
			return 0;
		if (!field_fits(program, form[0], op->dst, op->n) || !field_fits(program, form[1], op->a, op->n) ||
		    !field_fits(program, form[2], op->b, op->n))
			return 0;
	}
	return 1;
}

/* a / b of whole numbers as Python has it: the double that is nearest to the quotient itself */
static double quotient(s64 a, s64 b)
{
	u64 over = a < 0 ? -(u64)a : a, under = b < 0 ? -(u64)b : b, whole, rest;
	double made, scale = 1.0;
	int bits;

	if (a >= -EXACT && a <= EXACT && b >= -EXACT && b <= EXACT)
		return (double)a / (double)b;
	whole = over / under;
	rest = over % under;
	/* Bit by bit until there are more than a double has; what is left decides ties */
	for (bits = 0; bits < 128 && rest && whole < 1ULL << 62; bits++) {
		u64 is_over = rest >= under - rest;

		rest = is_over ? rest - (under - rest) : rest + rest;
		whole = whole << 1 | is_over;
		scale *= 0.5;
	}
	made = (double)(whole | (rest != 0)) * scale;
	return (a < 0) != (b < 0) ? -made : made;
}

/* -1, 0 or 1 as a whole number is below, at or above a double; 2 if it is none */
static s64 order(s64 a, double b)
{
	s64 whole;

	if (b != b)
		return 2;
	if (b >= TOO_LARGE)
		return -1;
	if (b < -TOO_LARGE)
		return 1;
	whole = (s64)b;
	if (a != whole)
		return a < whole ? -1 : 1;
	return b > (double)whole ? -1 : b < (double)whole ? 1 : 0;
}

static double root(double x)
{
	__asm__("sqrtsd %0, %0" : "+x"(x));
	return x;
}

/* The whole number that is nearest, and of two the even one */
static double nearest(double x)
{
	static const volatile double step = 4503599627370496.0;	/* 2^52, from which on doubles are whole */

	if (!(x > -step && x < step))
		return x;
	return x < 0 ? (x - step) + step : (x + step) - step;
}

/* Run from @at until RET; a fault, and at which instruction. The program fits, and @frame is as large as it says. */
u32 xc_run(const struct xc_program *program, u32 at, union xc_number *frame, u32 *stopped)
{
	static const void *const to[] = {
#define LABEL(name, form) &&do_##name,
		XC_OPS(LABEL)
#undef LABEL
	};
	const struct xc_op *code = program->code, *op = code + at;
	s64 fuel = XC_FUEL, q, m;
	u32 fault = XC_NO_FAULT;
	double f;

#define D frame[op->dst]
#define A frame[op->a]
#define B frame[op->b]
#define RUN goto *to[op->op]
#define NEXT do { op++; RUN; } while (0)
#define FAULT(why) do { fault = why; goto end; } while (0)
#define DO(name, what) do_##name: what; NEXT;
#define CHECKED(name, what) do_##name: if (what) FAULT(XC_OVERFLOW); D.i = q; NEXT;
#define JUMP do { \
		const struct xc_op *target_ = code + op->dst; \
		if (target_ <= op && (fuel -= op - target_ + 1) < 0) FAULT(XC_NO_FUEL); \
		op = target_; \
	} while (0)
#define WHEN(name, what) do_##name: if (what) JUMP; else op++; RUN;
/* A double that becomes a whole number */
#define WHOLE(name, what) do_##name: f = A.f; \
	if (!(f - f == 0.0)) FAULT(XC_NO_NUMBER); \
	f = what; \
	if (!(f >= -TOO_LARGE && f < TOO_LARGE)) FAULT(XC_OVERFLOW); \
	D.i = (s64)f; NEXT;

	RUN;
do_RET:
	return XC_NO_FAULT;
do_FAIL:
	FAULT(op->n);
	DO(MOV, D = A)
do_COPY: {
		union xc_number *dst = &D;
		const union xc_number *src = &A;
		u32 i, n = op->n;

		if (dst <= src)
			for (i = 0; i < n; i++)
				dst[i] = src[i];
		else
			for (i = n; i--;)
				dst[i] = src[i];
	}
	NEXT;
do_LOAD:
	q = B.i < 0 ? B.i + op->n : B.i;
	if (q < 0 || q >= op->n)
		FAULT(XC_INDEX);
	D = frame[op->a + q];
	NEXT;
do_STORE:
	q = B.i < 0 ? B.i + op->n : B.i;
	if (q < 0 || q >= op->n)
		FAULT(XC_INDEX);
	frame[op->dst + q] = A;
	NEXT;
do_NEED:
	if (!A.i)
		FAULT(XC_NOTHING);
	NEXT;
	CHECKED(ADDI, __builtin_add_overflow(A.i, B.i, &q))
	CHECKED(SUBI, __builtin_sub_overflow(A.i, B.i, &q))
	CHECKED(MULI, __builtin_mul_overflow(A.i, B.i, &q))
	CHECKED(NEGI, __builtin_sub_overflow(0LL, A.i, &q))
	CHECKED(ABSI, A.i < 0 ? __builtin_sub_overflow(0LL, A.i, &q) : (q = A.i, 0))
do_DIVI:
	if (!B.i)
		FAULT(XC_DIVISION);
	if (B.i == -1) {
		if (__builtin_sub_overflow(0LL, A.i, &q))
			FAULT(XC_OVERFLOW);
	} else {
		q = A.i / B.i;
		m = A.i % B.i;
		q -= m && (m < 0) != (B.i < 0);
	}
	D.i = q;
	NEXT;
do_MODI:
	if (!B.i)
		FAULT(XC_DIVISION);
	m = B.i == -1 ? 0 : A.i % B.i;
	D.i = m && (m < 0) != (B.i < 0) ? m + B.i : m;
	NEXT;
do_QUOI:
	if (!B.i)
		FAULT(XC_DIVISION);
	D.f = quotient(A.i, B.i);
	NEXT;
	DO(MINI, D.i = B.i < A.i ? B.i : A.i)
	DO(MAXI, D.i = B.i > A.i ? B.i : A.i)
	DO(ANDI, D.i = A.i & B.i)
	DO(ORI, D.i = A.i | B.i)
	DO(XORI, D.i = A.i ^ B.i)
	DO(INVI, D.i = ~A.i)
do_SHLI:
	if (B.i < 0)
		FAULT(XC_SHIFT);
	q = B.i > 62 ? 0 : (s64)((u64)A.i << B.i);
	if (A.i && (B.i > 62 || q >> B.i != A.i))
		FAULT(XC_OVERFLOW);
	D.i = q;
	NEXT;
do_SHRI:
	if (B.i < 0)
		FAULT(XC_SHIFT);
	D.i = A.i >> (B.i > 63 ? 63 : B.i);
	NEXT;
	DO(ADDF, D.f = A.f + B.f)
	DO(SUBF, D.f = A.f - B.f)
	DO(MULF, D.f = A.f * B.f)
do_DIVF:
	if (B.f == 0.0)
		FAULT(XC_DIVISION);
	D.f = A.f / B.f;
	NEXT;
	DO(NEGF, D.f = -A.f)
	DO(ABSF, D.f = __builtin_fabs(A.f))
	DO(MINF, D.f = B.f < A.f ? B.f : A.f)
	DO(MAXF, D.f = B.f > A.f ? B.f : A.f)
do_SQRTF:
	f = A.f;
	if (f < 0.0)
		FAULT(XC_ROOT);
	D.f = root(f);
	NEXT;
	DO(FLOAT, D.f = (double)A.i)
	WHOLE(INT, f)
	WHOLE(ROUND, nearest(f))
	WHOLE(FLOOR, nearest(f) > f ? nearest(f) - 1 : nearest(f))
	WHOLE(CEIL, nearest(f) < f ? nearest(f) + 1 : nearest(f))
	DO(CMPIF, D.i = order(A.i, B.f))
	WHEN(JMP, 1)
	WHEN(JZI, !A.i)
	WHEN(JNZI, A.i)
	WHEN(JZF, A.f == 0.0)
	WHEN(JNZF, A.f != 0.0)
	WHEN(JLTI, A.i < B.i)
	WHEN(JLEI, A.i <= B.i)
	WHEN(JEQI, A.i == B.i)
	WHEN(JNEI, A.i != B.i)
	WHEN(JLTF, A.f < B.f)
	WHEN(JLEF, A.f <= B.f)
	WHEN(JEQF, A.f == B.f)
	WHEN(JNLTF, !(A.f < B.f))
	WHEN(JNLEF, !(A.f <= B.f))
	WHEN(JNEF, A.f != B.f)
end:
	*stopped = op - code;
	return fault;
}

static u32 word(const u8 *at)
{
	return (u32)at[0] << 24 | at[1] << 16 | at[2] << 8 | at[3];
}

static void put_stamps(const struct xc_program *program, union xc_number *frame, const struct xr_event *event)
{
	u32 count = event->stamps_count < XC_STAMPS ? event->stamps_count : XC_STAMPS, i, column;

	frame[XC_STAMPS_COUNT].i = count;
	for (i = 0; i < count && program->stamps; i++)
		for (column = 0; column < 4; column++)
			frame[program->stamps + column * XC_STAMPS + i].i = word(event->stamps + 16 * i + 4 * column);
}

/* Tell a rate control of one's own what has happened, as the `tell` of its queue pair */
void xc_tell(struct xr_queue_pair *pair, const struct xr_event *event)
{
	const struct xc_program *program = pair->program;
	union xc_number *frame = pair->frame;
	struct xr_rate *rate = &pair->rate;

	frame[XC_NOW].i = event->now_ns;
	switch (event->kind) {
	case XR_SENT:
		frame[XC_OCTETS].i = event->octets;
		break;
	case XR_ROUND_TRIP:
		frame[XC_ROUND_TRIP].i = event->round_trip_ns;
		break;
	case XR_ACKNOWLEDGED:
		frame[XC_ROUND_TRIP].i = event->round_trip_ns;
		frame[XC_HAS_ROUND_TRIP].i = event->round_trip_ns >= 0;
		frame[XC_PACKETS].i = event->packets;
		frame[XC_UNTIL].i = event->until;
		frame[XC_NEXT].i = event->next;
		put_stamps(program, frame, event);
		break;
	}
	rate->fault = xc_run(program, program->entries[event->kind], frame, &rate->fault_at);
	if (rate->fault)
		return;
	rate->deadline_ns = frame[XC_DEADLINE].i;
	rate->rate_bps = frame[XC_RATE].f;
	rate->window = frame[XC_HAS_WINDOW].i ? frame[XC_WINDOW].i : 0;
	if (!(rate->rate_bps >= LEAST_RATE))
		rate->fault = XC_BAD_RATE;
	else if (frame[XC_HAS_WINDOW].i && (rate->window < 1 || rate->window > 0xffffffffLL))
		rate->fault = XC_BAD_WINDOW;
	if (rate->fault)
		rate->fault_at = program->entries[event->kind];
}

/* Ask a rule at a queue about a frame: a fault, or the answer */
u32 xs_ask(const struct xc_program *program, u32 event, union xc_number *frame, const struct xs_frame *about,
	   u32 *answer, u32 *stopped)
{
	u32 fault;

	frame[XS_NOW].i = about->now_ns;
	frame[XS_QUEUE].i = about->queue;
	frame[XS_OCTETS].i = about->octets;
	frame[XS_ECN].i = about->ecn;
	frame[XS_QUEUED_OCTETS].i = about->queued_octets;
	frame[XS_QUEUED_FRAMES].i = about->queued_frames;
	frame[XS_WAITED].i = about->waited_ns;
	fault = xc_run(program, program->entries[event], frame, stopped);
	*answer = frame[XS_ANSWER].i != 0;
	return fault;
}

/* Ask a rule about what it is told in its first cells behind the answer: a fault, or the answer */
u32 xs_told(const struct xc_program *program, u32 event, union xc_number *frame, const s64 *told, u32 numbers,
	    s64 *answer, u32 *stopped)
{
	u32 fault, i;

	for (i = 0; i < numbers && XS_NOW + i < XC_STATE; i++)
		frame[XS_NOW + i].i = told[i];
	fault = xc_run(program, program->entries[event], frame, stopped);
	*answer = frame[XS_ANSWER].i;
	return fault;
}

/* Tell a rule that chooses what the ways are; a column is as long as there are ways at the most */
void xs_tell_ways(const struct xc_program *program, union xc_number *frame, const s64 *more, const s64 *rows, u32 ways)
{
	union xc_number *to = frame + program->more;
	u32 i, column;

	if (!program->more)
		return;
	for (i = 0; i < XC_MORE; i++)
		to[i].i = more[i];
	to += XC_MORE;
	for (column = 0; column < XC_COLUMNS; column++)
		for (i = 0; i < ways && i < XC_WAYS; i++)
			to[column * XC_WAYS + i].i = rows[column * XC_WAYS + i];
}

/* What a recorder shows at a moment: on a copy, for to look changes nothing */
int xc_show(const struct xc_program *program, const union xc_number *frame, s64 now_ns, double *state)
{
	static union xc_number copy[XC_MOST_CELLS];
	u32 i, stopped;

	for (i = 0; i < program->cells; i++)
		copy[i] = frame[i];
	copy[XC_NOW].i = now_ns;
	if (program->entries[XC_SHOW] == XC_NO_ENTRY ||
	    xc_run(program, program->entries[XC_SHOW], copy, &stopped))
		return 0;
	for (i = 0; i < XR_STATE; i++)
		state[i] = copy[XC_STATE + i].f;
	return XR_STATE;
}
