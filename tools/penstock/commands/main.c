/* SPDX-License-Identifier: Apache-2.0
 *
 * The program's entry; everything else is in cli.c.
 */
#include <fcntl.h>
#include <unistd.h>

#include "commands/cli.h"

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
    occupy_streams();
    pst_cli_leave(pst_cli_run(argc, argv));
}
