/* SPDX-License-Identifier: Apache-2.0
 *
 * The program's entry; everything is in cli.c so that tests can call it.
 */
#include <string.h>

#include "check/conformance.h"
#include "cli/cli.h"

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], PST_CONFORMANCE_CHILD) == 0) {
        return pst_conformance_child(argc, argv);
    }
    return pst_cli_run(argc, argv);
}
