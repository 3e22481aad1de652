# Writes OUTPUT, a C++ source with every file of FILES (paths, separated by commas) as text, so that
# the tool is one file that can be moved. It defines FUNCTION, which takes a file's name.
string(REPLACE "," ";" FILES "${FILES}")
set(text "// Made by tool/embed_files.cmake.\n#include <string_view>\n\nnamespace octet::tool {\n\n")
string(APPEND text "std::string_view ${FUNCTION}(std::string_view name);\n\n")
string(APPEND text "std::string_view ${FUNCTION}(std::string_view name) {\n")
foreach(path ${FILES})
  get_filename_component(name ${path} NAME)
  file(READ ${path} content)
  string(APPEND text "  if (name == \"${name}\") {\n    return R\"octet(${content})octet\";\n  }\n")
endforeach()
string(APPEND text "  return {};\n}\n\n}  // namespace octet::tool\n")
file(WRITE ${OUTPUT} "${text}")
