/* SPDX-License-Identifier: Apache-2.0
 *
 * Loaded before MPI: MPI_Init_thread ends the process, as some errors of it do.
 */
#include <stdlib.h>

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided);

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    exit(1);
}
