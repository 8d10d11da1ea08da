/*
 * A program in the lab that has the host's process, in which it runs, make system calls of the host.
 *
 * That process can make some, as the kernel of `um` has them made there, by code in a page that every program can
 * read and jump to. `site` is one of the instructions there. Each word of the command line is an attempt; what came of
 * it is printed as "word result". Built without a C library, as the test builds it with what it has.
 */
typedef unsigned long u64;
typedef unsigned int u32;

enum { READ, WRITE, OPEN, MMAP = 9, SIGACTION = 13, SIGRETURN = 15, YIELD = 24, GETPID = 39, SOCKETPAIR = 53, CLONE = 56, FORK = 57,
       EXIT = 60, WAIT4 = 61, EXIT_GROUP = 231 };
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
enum { RAX = 13, RIP = 16 };

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
	} else if (equal(what, "vsyscall"))
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
