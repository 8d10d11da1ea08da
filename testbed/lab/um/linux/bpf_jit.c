// SPDX-License-Identifier: GPL-2.0-only
/*
 * BPF programs as code of the CPU. The port program runs several times for each frame, and the
 * interpreter takes more time for it than the rest of the kernel does.
 *
 * Simple rather than clever: each BPF register has one of the CPU, each instruction becomes a fixed
 * sequence, and no sequence depends on where something is. So one pass finds the length and all offsets,
 * and a second one writes. A program with an instruction that is not here is left to the interpreter.
 */
#include <linux/bpf.h>
#include <linux/filter.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <as-layout.h>

enum { RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8, R9, R10, R11, R12, R13, R14, R15 };

/* Arguments are where C has them. Nothing is in rsp or r12, which memory operands encode differently. */
static const u8 cpu_register[] = {
	[BPF_REG_0] = RAX, [BPF_REG_1] = RDI, [BPF_REG_2] = RSI, [BPF_REG_3] = RDX,
	[BPF_REG_4] = RCX, [BPF_REG_5] = R8,  [BPF_REG_6] = RBX, [BPF_REG_7] = R13,
	[BPF_REG_8] = R14, [BPF_REG_9] = R15, [BPF_REG_FP] = RBP, [BPF_REG_AX] = R10,
};

/* For what an instruction needs in between */
#define SCRATCH	R11
#define OTHER	R9

#define MEGABYTE	20

struct code {
	u8 *image;		/* NULL: only the length is wanted */
	u32 length;
	u32 *offsets;		/* of each instruction, and of the end */
};

static void put(struct code *c, u64 value, int octets)
{
	if (c->image)
		memcpy(c->image + c->length, &value, octets);
	c->length += octets;
}

#define PUT(c, ...) do {						\
	static const u8 octets_[] = { __VA_ARGS__ };			\
	unsigned int i_;						\
									\
	for (i_ = 0; i_ < sizeof(octets_); i_++)			\
		put(c, octets_[i_], 1);					\
} while (0)

/* The prefix that widens the operation and the registers; it also makes octets of all registers accessible. */
static void put_rex(struct code *c, bool wide, int reg, int rm)
{
	put(c, 0x40 | wide << 3 | reg >> 3 << 2 | rm >> 3, 1);
}

/* An operation on two registers, or on one with an extension of the operation in @reg */
static void put_registers(struct code *c, bool wide, int operation, int reg, int rm)
{
	put_rex(c, wide, reg, rm);
	put(c, operation, operation > 0xff ? 2 : 1);
	put(c, 0xc0 | (reg & 7) << 3 | (rm & 7), 1);
}

/* An operation on a register and memory. An operation of two octets has the first one, 0x0f, below. */
static void put_memory(struct code *c, int prefix, bool wide, int operation, int reg, int base, s32 at)
{
	if (prefix)
		put(c, prefix, 1);
	put_rex(c, wide, reg, base);
	put(c, operation, operation > 0xff ? 2 : 1);
	put(c, 0x80 | (reg & 7) << 3 | (base & 7), 1);
	put(c, (u32)at, 4);
}

static void put_move(struct code *c, bool wide, int to, int from)
{
	put_registers(c, wide, 0x89, from, to);
}

static void put_constant(struct code *c, int to, u64 value)
{
	put_rex(c, true, 0, to);
	put(c, 0xb8 | (to & 7), 1);
	put(c, value, 8);
}

/* Extended to 64 bits by its sign, or to 32 with zeros above */
static void put_immediate(struct code *c, bool wide, int to, s32 value)
{
	put_registers(c, wide, 0xc7, 0, to);
	put(c, (u32)value, 4);
}

static void put_call(struct code *c, u64 address)
{
	put_constant(c, SCRATCH, address);
	put_registers(c, false, 0xff, 2, SCRATCH);
}

/* To the instruction after the one at @index, and @by further. @condition: of the CPU; none is a jump. */
static void put_jump(struct code *c, int condition, int index, s32 by)
{
	if (condition)
		put(c, 0x0f | (0x80 | condition) << 8, 2);
	else
		put(c, 0xe9, 1);
	put(c, c->image ? c->offsets[index + 1 + by] - (c->length + 4) : 0, 4);
}

static bool put_arithmetic(struct code *c, const struct bpf_insn *insn, int dst, int src)
{
	static const u8 operations[] = {
		[BPF_ADD >> 4] = 0x01, [BPF_SUB >> 4] = 0x29, [BPF_AND >> 4] = 0x21,
		[BPF_OR >> 4] = 0x09, [BPF_XOR >> 4] = 0x31,
	};
	static const u8 shifts[] = { [BPF_LSH >> 4] = 4, [BPF_RSH >> 4] = 5, [BPF_ARSH >> 4] = 7 };
	bool wide = BPF_CLASS(insn->code) == BPF_ALU64, constant = BPF_SRC(insn->code) == BPF_K;
	int operation = BPF_OP(insn->code);

	switch (operation) {
	case BPF_ADD:
	case BPF_SUB:
	case BPF_AND:
	case BPF_OR:
	case BPF_XOR:
		if (constant) {
			put_registers(c, wide, 0x81, operations[operation >> 4] >> 3, dst);
			put(c, (u32)insn->imm, 4);
		} else {
			put_registers(c, wide, operations[operation >> 4], src, dst);
		}
		return true;
	case BPF_MOV:
		if (insn->off)
			return false;
		if (constant)
			put_immediate(c, wide, dst, insn->imm);
		else
			put_move(c, wide, dst, src);
		return true;
	case BPF_NEG:
		put_registers(c, wide, 0xf7, 3, dst);
		return true;
	case BPF_MUL:
		if (constant)
			put_immediate(c, wide, SCRATCH, insn->imm);
		put_registers(c, wide, 0xaf0f, dst, constant ? SCRATCH : src);
		return true;
	case BPF_LSH:
	case BPF_RSH:
	case BPF_ARSH:
		if (constant) {
			put_registers(c, wide, 0xc1, shifts[operation >> 4], dst);
			put(c, insn->imm, 1);
		} else { /* by cl, and nothing else */
			put_move(c, true, OTHER, RCX);
			put_move(c, true, SCRATCH, dst);
			put_move(c, true, RCX, src);
			put_registers(c, wide, 0xd3, shifts[operation >> 4], SCRATCH);
			put_move(c, true, RCX, OTHER);
			put_move(c, true, dst, SCRATCH);
		}
		return true;
	case BPF_DIV:
	case BPF_MOD: /* rdx:rax, and nothing else; the verifier has seen to a divisor of 0 */
		if (insn->off)
			return false;
		if (constant)
			put_immediate(c, wide, SCRATCH, insn->imm);
		else
			put_move(c, true, SCRATCH, src);
		PUT(c, 0x50, 0x52); /* push rax; push rdx */
		put_move(c, true, RAX, dst);
		PUT(c, 0x31, 0xd2); /* xor edx, edx */
		put_registers(c, wide, 0xf7, 6, SCRATCH);
		put_move(c, wide, SCRATCH, operation == BPF_DIV ? RAX : RDX);
		PUT(c, 0x5a, 0x58); /* pop rdx; pop rax */
		put_move(c, true, dst, SCRATCH);
		return true;
	case BPF_END: {
		bool swap = wide || BPF_SRC(insn->code) == BPF_TO_BE;

		switch (insn->imm) {
		case 16:
			if (swap) {
				put(c, 0x66, 1);
				put_registers(c, false, 0xc1, 0, dst); /* rol by 8 */
				put(c, 8, 1);
			}
			put_registers(c, false, 0xb70f, dst, dst);
			return true;
		case 32:
		case 64:
			if (swap) {
				put_rex(c, insn->imm == 64, 0, dst);
				put(c, 0x0f | (0xc8 | (dst & 7)) << 8, 2);
			} else if (insn->imm == 32) {
				put_move(c, false, dst, dst);
			}
			return true;
		}
		return false;
	}
	}
	return false;
}

static bool put_branch(struct code *c, const struct bpf_insn *insn, int index, int dst, int src)
{
	static const u8 conditions[] = {
		[BPF_JEQ >> 4] = 0x4, [BPF_JNE >> 4] = 0x5, [BPF_JSET >> 4] = 0x5,
		[BPF_JGT >> 4] = 0x7, [BPF_JGE >> 4] = 0x3, [BPF_JLT >> 4] = 0x2, [BPF_JLE >> 4] = 0x6,
		[BPF_JSGT >> 4] = 0xf, [BPF_JSGE >> 4] = 0xd, [BPF_JSLT >> 4] = 0xc, [BPF_JSLE >> 4] = 0xe,
	};
	bool wide = BPF_CLASS(insn->code) == BPF_JMP, tests = BPF_OP(insn->code) == BPF_JSET;
	unsigned int operation = BPF_OP(insn->code) >> 4;

	if (operation >= ARRAY_SIZE(conditions) || !conditions[operation])
		return false;
	if (BPF_SRC(insn->code) == BPF_X) {
		put_registers(c, wide, tests ? 0x85 : 0x39, src, dst);
	} else {
		put_registers(c, wide, tests ? 0xf7 : 0x81, tests ? 0 : 7, dst);
		put(c, (u32)insn->imm, 4);
	}
	put_jump(c, conditions[operation], index, insn->off);
	return true;
}

static bool put_load(struct code *c, int size, int dst, int base, s32 at)
{
	switch (size) {
	case BPF_B:
		put_memory(c, 0, false, 0xb60f, dst, base, at);
		return true;
	case BPF_H:
		put_memory(c, 0, false, 0xb70f, dst, base, at);
		return true;
	case BPF_W:
	case BPF_DW:
		put_memory(c, 0, size == BPF_DW, 0x8b, dst, base, at);
		return true;
	}
	return false;
}

static u64 read_or_zero(const void *from, u32 octets)
{
	u64 value = 0;

	return copy_from_kernel_nofault(&value, from, octets) ? 0 : value;
}

/* From an address that may be none: what is not in the kernel's memory is read with care. */
static void put_careful_load(struct code *c, int size, int dst, int base, s32 at)
{
	u32 careful, end;

	put_memory(c, 0, true, 0x8d, SCRATCH, base, at); /* lea */
	put_constant(c, OTHER, -(u64)PFN_ALIGN(uml_reserved));
	put_registers(c, true, 0x01, SCRATCH, OTHER);
	put_registers(c, true, 0xc1, 5, OTHER);
	put(c, MEGABYTE, 1);
	put_registers(c, true, 0x81, 7, OTHER);
	put(c, (((u64)high_physmem - PFN_ALIGN(uml_reserved)) >> MEGABYTE) - 1, 4);
	PUT(c, 0x73, 0); /* jae */
	careful = c->length;
	put_load(c, size, dst, SCRATCH, 0);
	PUT(c, 0xeb, 0); /* jmp */
	end = c->length;
	if (c->image)
		c->image[careful - 1] = end - careful;
	PUT(c, 0x50, 0x57, 0x56, 0x52, 0x51, 0x41, 0x50, 0x41, 0x52, 0x41, 0x52); /* push what a call may change */
	put_move(c, true, RDI, SCRATCH);
	put_immediate(c, false, RSI, bpf_size_to_bytes(size));
	put_call(c, (u64)read_or_zero);
	put_move(c, true, SCRATCH, RAX);
	PUT(c, 0x41, 0x5a, 0x41, 0x5a, 0x41, 0x58, 0x59, 0x5a, 0x5e, 0x5f, 0x58);
	put_move(c, true, dst, SCRATCH);
	if (c->image)
		c->image[end - 1] = c->length - end;
}

static bool put_store(struct code *c, const struct bpf_insn *insn, int dst, int src)
{
	int size = BPF_SIZE(insn->code), prefix = size == BPF_H ? 0x66 : 0;
	bool constant = BPF_CLASS(insn->code) == BPF_ST, octet = size == BPF_B;

	if (!constant) {
		put_memory(c, prefix, size == BPF_DW, octet ? 0x88 : 0x89, src, dst, insn->off);
		return true;
	}
	put_memory(c, prefix, size == BPF_DW, octet ? 0xc6 : 0xc7, 0, dst, insn->off);
	put(c, (u32)insn->imm, octet ? 1 : size == BPF_H ? 2 : 4);
	return true;
}

/* There is one CPU, and an instruction is not interrupted in the middle, so no lock is needed. */
static bool put_atomic(struct code *c, const struct bpf_insn *insn, int dst, int src)
{
	bool wide = BPF_SIZE(insn->code) == BPF_DW;
	int operation;

	if (!wide && BPF_SIZE(insn->code) != BPF_W)
		return false;
	switch (insn->imm) {
	case BPF_ADD:
		operation = 0x01;
		break;
	case BPF_AND:
		operation = 0x21;
		break;
	case BPF_OR:
		operation = 0x09;
		break;
	case BPF_XOR:
		operation = 0x31;
		break;
	case BPF_ADD | BPF_FETCH:
		operation = 0xc10f;
		break;
	case BPF_XCHG:
		operation = 0x87;
		break;
	case BPF_CMPXCHG:
		operation = 0xb10f;
		break;
	default:
		return false;
	}
	put_memory(c, 0, wide, operation, src, dst, insn->off);
	return true;
}

static void put_entry(struct code *c, u32 stack)
{
	PUT(c, 0x55, 0x48, 0x89, 0xe5, 0x48, 0x81, 0xec); /* push rbp; mov rbp, rsp; sub rsp, */
	put(c, round_up(stack, 16), 4);
	PUT(c, 0x53, 0x41, 0x55, 0x41, 0x56, 0x41, 0x57); /* push rbx, r13, r14, r15 */
}

static void put_exit(struct code *c)
{
	PUT(c, 0x41, 0x5f, 0x41, 0x5e, 0x41, 0x5d, 0x5b, 0xc9, 0xc3); /* pop them; leave; ret */
}

/* One instruction; how many slots it takes, and 0 if it is not known. */
static int put_instruction(struct code *c, struct bpf_prog *prog, int index, bool extra_pass)
{
	const struct bpf_insn *insn = prog->insnsi + index;
	int dst = cpu_register[insn->dst_reg], src = cpu_register[insn->src_reg];
	bool fixed;
	u64 target;

	switch (BPF_CLASS(insn->code)) {
	case BPF_ALU:
	case BPF_ALU64:
		return put_arithmetic(c, insn, dst, src);
	case BPF_JMP32:
		if (BPF_OP(insn->code) == BPF_JA) {
			put_jump(c, 0, index, insn->imm);
			return 1;
		}
		return put_branch(c, insn, index, dst, src);
	case BPF_JMP:
		switch (insn->code) {
		case BPF_JMP | BPF_JA:
			put_jump(c, 0, index, insn->off);
			return 1;
		case BPF_JMP | BPF_EXIT:
			put_exit(c);
			return 1;
		case BPF_JMP | BPF_CALL:
			if (bpf_jit_get_func_addr(prog, insn, extra_pass, &target, &fixed) < 0)
				return 0;
			put_call(c, target);
			return 1;
		}
		return put_branch(c, insn, index, dst, src);
	case BPF_LD:
		if (insn->code != (BPF_LD | BPF_IMM | BPF_DW))
			return 0;
		put_constant(c, dst, (u32)insn[0].imm | (u64)(u32)insn[1].imm << 32);
		return 2;
	case BPF_LDX:
		if (BPF_MODE(insn->code) == BPF_MEM)
			return put_load(c, BPF_SIZE(insn->code), dst, src, insn->off);
		if (BPF_MODE(insn->code) != BPF_PROBE_MEM)
			return 0;
		put_careful_load(c, BPF_SIZE(insn->code), dst, src, insn->off);
		return 1;
	case BPF_ST:
		if (insn->code == (BPF_ST | BPF_NOSPEC))
			return 1;
		return BPF_MODE(insn->code) == BPF_MEM ? put_store(c, insn, dst, src) : 0;
	case BPF_STX:
		if (BPF_MODE(insn->code) == BPF_ATOMIC)
			return put_atomic(c, insn, dst, src);
		return BPF_MODE(insn->code) == BPF_MEM ? put_store(c, insn, dst, src) : 0;
	}
	return 0;
}

static bool put_program(struct code *c, struct bpf_prog *prog, bool extra_pass)
{
	int index, slots;

	c->length = 0;
	put_entry(c, prog->aux->stack_depth);
	for (index = 0; index < prog->len; index += slots) {
		c->offsets[index] = c->length;
		slots = put_instruction(c, prog, index, extra_pass);
		if (!slots)
			return false;
	}
	c->offsets[index] = c->length;
	return true;
}

/* Not bpf_jit_binary_alloc(), which draws a place at random: what the lab draws is to stay as it is. */
static u8 *room_for(u32 length)
{
	u32 size = PAGE_ALIGN(sizeof(struct bpf_binary_header) + length);
	struct bpf_binary_header *header;

	if (bpf_jit_charge_modmem(size))
		return NULL;
	header = bpf_jit_alloc_exec(size);
	if (!header) {
		bpf_jit_uncharge_modmem(size);
		return NULL;
	}
	header->size = size;
	return header->image;
}

struct bpf_prog *bpf_int_jit_compile(struct bpf_verifier_env *env, struct bpf_prog *prog)
{
	/* Functions of a program are compiled twice: the second time, all their addresses are known. */
	bool extra_pass = prog->jited;
	struct code c = {};

	if (!prog->jit_requested)
		return prog;
	c.offsets = kvcalloc(prog->len + 1, sizeof(*c.offsets), GFP_KERNEL);
	if (!c.offsets || !put_program(&c, prog, extra_pass))
		goto out;
	c.image = extra_pass ? (u8 *)prog->bpf_func : room_for(c.length);
	if (!c.image)
		goto out;
	put_program(&c, prog, extra_pass);
	prog->bpf_func = (void *)c.image;
	prog->jited = 1;
	prog->jited_len = c.length;
out:
	kvfree(c.offsets);
	return prog;
}
