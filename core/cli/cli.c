/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"

#include <stdio.h>

int pst_cli_run(int argc, char **argv)
{
    (void)argv;
    fprintf(stderr, "penstock: %d arguments\n", argc - 1);
    return 2;
}
