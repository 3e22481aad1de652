// A file that one process at a time may work on.
#pragma once

namespace octet::tool {

// Takes the lock of an open file, which is free when the last process that inherited it is gone. A
// process that was killed is on its way out, so it is waited for, some seconds. False, with errno,
// which is EWOULDBLOCK where another process is at work.
bool take_lock(int descriptor);

}  // namespace octet::tool
