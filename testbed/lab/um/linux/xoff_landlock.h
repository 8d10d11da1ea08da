/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __XOFF_LANDLOCK_H
#define __XOFF_LANDLOCK_H

#include <asm/unistd.h>
#include <sysdep/stub.h>

enum xoff_landlock_what {
	XOFF_SCOPES,	/* signals and abstract sockets of processes that are not among those that it confines */
	XOFF_PATHS,	/* each access to a file by a path, and TCP */
};

/*
 * Forbid this process, and all that it clones, @what as far as the host's Landlock goes. Return the version of the
 * host's interface; 0 if it has nothing of it. The C library's headers may be older than the host, so the
 * interface is written out here.
 */
static __always_inline int xoff_landlock(enum xoff_landlock_what what)
{
	struct {
		unsigned long long files, net, scoped;
	} rules = { };
	/* What each version of the interface has learnt to restrict: rights on files, on the network, scopes */
	long version = stub_syscall3(444, 0, 0, 1), fd;

	if (version < (what == XOFF_SCOPES ? 6 : 1))
		return 0;
	if (what == XOFF_SCOPES) {
		rules.scoped = 3;
	} else {
		rules.files = version == 1 ? (1 << 13) - 1 : version == 2 ? (1 << 14) - 1 :
			      version < 5 ? (1 << 15) - 1 : (1 << 16) - 1;
		rules.net = version < 4 ? 0 : 3;
	}
	fd = stub_syscall3(444, (unsigned long)&rules, version < 4 ? 8 : version < 6 ? 16 : 24, 0);
	if (fd < 0)
		return 0;
	if (stub_syscall2(446, fd, 0) < 0)
		version = 0;
	stub_syscall1(__NR_close, fd);
	return version;
}

#endif
