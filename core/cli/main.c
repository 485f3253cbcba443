/* SPDX-License-Identifier: Apache-2.0
 *
 * The program's entry; everything is in cli.c so that tests can call it.
 */
#include "cli/cli.h"

int main(int argc, char **argv)
{
    return pst_cli_run(argc, argv);
}
