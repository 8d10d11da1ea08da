/* Ask a rule of many frames, for bench/marking.py: code on the standard input, as count, cells, what has no fixed cells,
 * entries, code and cells. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "xoff_control_vm.c"

#define WAYS 4

static u32 given(void *to, size_t size)
{
	return fread(to, 1, size, stdin) == size;
}

/* As the port program does: numbers, and of a choice the ways as well */
static u32 told(const struct xc_program *program, u32 event, union xc_number *frame, long i, int chooses, s64 *answer)
{
	static s64 more[XC_MORE], rows[XC_COLUMNS * XC_WAYS];
	s64 told[XC_STATE - XS_NOW] = { 1000 * i, chooses ? 1100 : 3, chooses ? i * 2654435761u % 4294967296 : 1100 };
	u32 stopped, way;

	if (chooses) {
		told[3] = i % 3 ? 500 : 30000;
		told[4] = i % WAYS;
		told[5] = WAYS;
		for (way = 0; way < WAYS; way++) {
			rows[way] = (i + way) * 977 % 170000;
			rows[XC_WAYS + way] = (i + way) * 331 % 20000;
			rows[2 * XC_WAYS + way] = 1;
		}
		xs_tell_ways(program, frame, more, rows, WAYS);
	} else {
		told[3] = event == 3 ? 10000 : 2;
		told[4] = i * 977 % 170000;
		told[6] = 14;
		told[7] = i % 900;
		told[8] = 900 - i % 900;
	}
	return xs_told(program, event, frame, told, XC_STATE - XS_NOW, answer, &stopped);
}

int main(int argc, char **argv)
{
	struct xc_program program = {};
	long times = argc > 1 ? atol(argv[1]) : 0, i, marks = 0;
	union xc_number *frame;
	struct timespec begin, end;
	struct xc_op *code;
	u32 event = argc > 2 ? atoi(argv[2]) : 0, answer, stopped;
	int chooses = argc > 3 && !strcmp(argv[3], "ways"), is_told = chooses || (argc > 3 && !strcmp(argv[3], "told"));
	s64 said;

	if (!given(&program.count, 4) || !given(&program.cells, 4) || !given(&program.more, 4) ||
	    !given(program.entries, sizeof(program.entries)))
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

		if (is_told) {
			if (told(&program, event, frame, i, chooses, &said))
				return 1;
			marks += said;
			continue;
		}
		if (xs_ask(&program, event, frame, &about, &answer, &stopped))
			return 1;
		marks += answer;
	}
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
	printf("%.3f %ld\n", ((end.tv_sec - begin.tv_sec) * 1e9 + (end.tv_nsec - begin.tv_nsec)) / times, marks);
	return 0;
}
