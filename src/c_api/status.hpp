// Where C++ errors become C ones: no exception leaves a function that runs inside guarded().
#pragma once

#include <octet/error.hpp>
#include <octet/octet.h>

#include <exception>
#include <new>

namespace octet::c_api {

// Stores the message for octet_last_error() of this thread, and returns the status.
octet_status remember(octet_status status, const char* message) noexcept;

template <class Call>
octet_status guarded(const Call& call) noexcept {
  try {
    call();
    return OCTET_OK;
  } catch (const Error& error) {
    return remember(static_cast<octet_status>(error.code()), error.what());
  } catch (const std::bad_alloc&) {
    return remember(OCTET_OUT_OF_MEMORY, "octet: the process is out of memory");
  } catch (const std::exception& error) {
    return remember(OCTET_INTERNAL, error.what());
  } catch (...) {
    return remember(OCTET_INTERNAL, "octet: an exception that is none of the standard library's");
  }
}

}  // namespace octet::c_api
