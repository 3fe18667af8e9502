# Debian's zsh reads the completions of packages in a folder of its own. CPack runs this in each package
# before it is made.
if(CPACK_GENERATOR STREQUAL "DEB")
  file(GLOB folders ${CPACK_TEMPORARY_DIRECTORY}/*/usr/share/zsh)
  foreach(folder IN LISTS folders)
    file(RENAME ${folder}/site-functions ${folder}/vendor-completions)
  endforeach()
endif()
