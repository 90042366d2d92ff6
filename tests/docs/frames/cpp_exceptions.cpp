/* SPDX-License-Identifier: Apache-2.0 */
#include <hooksess/hooksess.hpp>

#undef NDEBUG
#include <cassert>
#include <cstring>

int main()
{
    hs::graph g;
    /* BLOCK */
    hs::session s = hs::hooked_session(g, HS_SESSION_OPTIONS(.hooks = nullptr));
    /* BLOCK */
    assert(outcome.exit_code() == 1 && outcome.get().error.code == HS_INTERNAL);
    assert(std::strstr(outcome.get().error.message, "batch 7 is damaged"));
}
