# frozen_string_literal: true

require 'open3'

# The system on which the workloads run: this machine, or a root made by `bin/roots`.
class System
  CHECKOUT = File.expand_path('../..', __dir__)

  attr_reader :name

  def initialize(name)
    @name = name
  end

  def here?
    name == 'here'
  end

  # Debian's compiled gems are not built for Ruby 3.4, so that root runs workloads of pure Ruby only.
  def gems?
    name != 'ruby34'
  end

  def folder(workload)
    File.join(CHECKOUT, 'workloads', workload)
  end

  # The command line that runs `command` on this system, in the current folder.
  def wrap(command)
    here? ? command : [File.join(CHECKOUT, 'bin/roots'), '--run', name, '--', *command]
  end

  # Standard output of a command; raises if it fails.
  def capture(*command, workload:)
    output, status = Open3.capture2(*wrap(command), chdir: folder(workload))
    raise "#{command.join(' ')} failed on #{name}: #{status}" unless status.success?

    output
  end

  # Whether this system's Ruby has these libraries.
  def libraries?(*names)
    script = names.map { |library| "require '#{library}'" }.join(';')
    system(*wrap(['ruby', '-e', script]), chdir: __dir__, err: File::NULL)
  end
end
