/* Ask a rule of many frames, for bench/marking.py: code on the standard input, as count, cells, entry, code and cells. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "xoff_control_vm.c"

static u32 given(void *to, size_t size)
{
	return fread(to, 1, size, stdin) == size;
}

int main(int argc, char **argv)
{
	struct xc_program program = {};
	long times = argc > 1 ? atol(argv[1]) : 0, i, marks = 0;
	union xc_number *frame;
	struct timespec begin, end;
	struct xc_op *code;
	u32 event = argc > 2 ? atoi(argv[2]) : 0, answer, stopped;

	if (!given(&program.count, 4) || !given(&program.cells, 4) || !given(program.entries, sizeof(program.entries)))
		return 1;
	code = malloc(program.count * sizeof(*code));
	frame = malloc(program.cells * sizeof(*frame));
	program.code = code;
	if (!given(code, program.count * sizeof(*code)) || !given(frame, program.cells * sizeof(*frame)) ||
	    !xc_fits(&program))
		return 1;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
	for (i = 0; i < times; i++) {
		struct xs_frame about = {
			.now_ns = 1000 * i, .waited_ns = i % 5000, .queue = 3 + i % 2, .octets = 1100, .ecn = 2,
			.queued_octets = i * 977 % 170000, .queued_frames = i % 150,
		};

		if (xs_ask(&program, event, frame, &about, &answer, &stopped))
			return 1;
		marks += answer;
	}
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
	printf("%.3f %ld\n", ((end.tv_sec - begin.tv_sec) * 1e9 + (end.tv_nsec - begin.tv_nsec)) / times, marks);
	return 0;
}
