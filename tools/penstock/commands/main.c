/* SPDX-License-Identifier: Apache-2.0
 *
 * The program's entry; everything is in cli.c so that tests can call it.
 */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "commands/cli.h"
#include "exec/exec.h"

/* A stream that the caller closed must not become the number of a file that is opened later. Opened
   the wrong way round, it fails as a closed one does. */
static void occupy_streams(void)
{
    for (int fd = 0; fd < 3; fd++) {
        if (fcntl(fd, F_GETFD) == -1 && open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) != fd) {
            return;
        }
    }
}

int main(int argc, char **argv)
{
    int code;

    occupy_streams();
    code = pst_cli_run(argc, argv);
    if (pst_exec_is_stuck()) { /* exit() would wait for the device */
        fflush(NULL);
        _exit(code);
    }
    return code;
}
