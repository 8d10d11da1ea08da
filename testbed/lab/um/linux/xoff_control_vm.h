/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Classes of one's own as code: what testbed/bytecode makes of a class in Python, and its interpreter. Rate controls of
 * queue pairs and rules of switches (xoff_rule.h) are such classes.
 *
 * A program works on a frame of cells of 8 octets, each a whole number or a double: the fixed ones of enum xc_cell, then
 * state, constants and what is in between. Who takes a program checks it once, with xc_fits(): then each cell, array and
 * target of a jump is within its bounds, whatever the numbers are, and jumps back take fuel, so that each event ends.
 * Numbers are those of Python, with a fault where a whole number needs more than 64 bits.
 */
#ifndef __XOFF_CONTROL_VM_H
#define __XOFF_CONTROL_VM_H

#include "xoff_roce.h"

#define XC_MOST_CELLS 2048
#define XC_MOST_CODE 16384
#ifndef XC_FUEL
#define XC_FUEL 1000000		/* instructions that jumps back may repeat in one event */
#endif
#define XC_STAMPS 15		/* of an acknowledgement at the most; of each, four numbers */
#define XC_NO_ENTRY (~0u)

/* The name of each operation, and what its fields are: c a cell that is read, w one that is written, t a target, and of
 * n cells R an array that is read and W one that is written. The fields are dst, a, b. */
#define XC_OPS(X) \
	X(RET, "...") X(MOV, "wc.") X(COPY, "WR.") X(LOAD, "wRc") X(STORE, "Wcc") X(NEED, ".c.") X(FAIL, "...") \
	X(ADDI, "wcc") X(SUBI, "wcc") X(MULI, "wcc") X(DIVI, "wcc") X(MODI, "wcc") X(QUOI, "wcc") X(NEGI, "wc.") \
	X(ABSI, "wc.") X(MINI, "wcc") X(MAXI, "wcc") \
	X(ANDI, "wcc") X(ORI, "wcc") X(XORI, "wcc") X(SHLI, "wcc") X(SHRI, "wcc") X(INVI, "wc.") \
	X(ADDF, "wcc") X(SUBF, "wcc") X(MULF, "wcc") X(DIVF, "wcc") X(NEGF, "wc.") X(ABSF, "wc.") X(MINF, "wcc") \
	X(MAXF, "wcc") X(SQRTF, "wc.") \
	X(FLOAT, "wc.") X(INT, "wc.") X(ROUND, "wc.") X(FLOOR, "wc.") X(CEIL, "wc.") \
	X(CMPIF, "wcc") \
	X(JMP, "t..") X(JZI, "tc.") X(JNZI, "tc.") X(JZF, "tc.") X(JNZF, "tc.") \
	X(JLTI, "tcc") X(JLEI, "tcc") X(JEQI, "tcc") X(JNEI, "tcc") \
	X(JLTF, "tcc") X(JLEF, "tcc") X(JEQF, "tcc") X(JNLTF, "tcc") X(JNLEF, "tcc") X(JNEF, "tcc")

enum xc_operation {
#define XC_NAME(name, form) XC_##name,
	XC_OPS(XC_NAME)
#undef XC_NAME
	XC_OPERATIONS
};

enum xc_cell {
	XC_RATE, XC_WINDOW, XC_HAS_WINDOW, XC_DEADLINE,
	XC_NOW, XC_OCTETS, XC_ROUND_TRIP, XC_HAS_ROUND_TRIP, XC_PACKETS, XC_UNTIL, XC_NEXT, XC_STAMPS_COUNT,
	XC_STATE
};
#define XC_FIRST (XC_STATE + XR_STATE)

/* In place of these, the cells before XC_STATE of a rule at a queue */
enum xs_cell {
	XS_ANSWER,
	XS_NOW, XS_QUEUE, XS_OCTETS, XS_ECN, XS_QUEUED_OCTETS, XS_QUEUED_FRAMES, XS_WAITED
};

/* What a choice among ways has beside its fixed cells: numbers, and columns with a row for each way; as in xoff_rule.h */
#define XC_MORE 3
#define XC_COLUMNS 3
#define XC_WAYS 64

/* Entries: those of enum xr_told, and what a recorder shows */
#define XC_SHOW 6
#define XC_ENTRIES 7

/* Why an event has ended early; testbed/bytecode/code.py has the words in this order */
enum xc_fault {
	XC_NO_FAULT, XC_OVERFLOW, XC_DIVISION, XC_NO_NUMBER, XC_ROOT, XC_INDEX, XC_NOTHING, XC_SHIFT, XC_NO_FUEL,
	XC_BAD_RATE, XC_BAD_WINDOW, XC_STANDS_STILL, XC_UNEQUAL, XC_RAISED, XC_BAD_ANSWER
};

struct xc_op {
	u8 op, n;
	u16 dst, a, b;
};

struct xc_program {
	u32 count, cells;
	u32 entries[XC_ENTRIES];
	u32 stamps;		/* the first of four arrays of XC_STAMPS cells, or 0 */
	u32 more;		/* the first of XC_MORE cells and XC_COLUMNS arrays of XC_WAYS cells, or 0 */
	const struct xc_op *code;
};

union xc_number {
	s64 i;
	double f;
};

/* What a rule at a queue is told of a frame */
struct xs_frame {
	s64 now_ns, waited_ns;
	u32 queue, octets, ecn, queued_octets, queued_frames, unused;
};

int xc_fits(const struct xc_program *program);
u32 xc_run(const struct xc_program *program, u32 at, union xc_number *frame, u32 *stopped);
void xc_tell(struct xr_queue_pair *pair, const struct xr_event *event);
u32 xs_ask(const struct xc_program *program, u32 event, union xc_number *frame, const struct xs_frame *about,
	   u32 *answer, u32 *stopped);
u32 xs_told(const struct xc_program *program, u32 event, union xc_number *frame, const s64 *told, u32 numbers,
	    s64 *answer, u32 *stopped);
void xs_tell_ways(const struct xc_program *program, union xc_number *frame, const s64 *more, const s64 *rows, u32 ways);
int xc_show(const struct xc_program *program, const union xc_number *frame, s64 now_ns, double *state);

#endif
