# frozen_string_literal: true

require 'net/http'
require 'socket'
require 'tempfile'

# A server for one test, in its own process group, stopped with everything it started.
class Booted
  DEADLINE = 90

  attr_reader :port

  def self.free_port
    TCPServer.open('127.0.0.1', 0) { |server| server.addr[1] }
  end

  # Yields the running server and always stops it afterwards. It is ready when it answers the path `ready`, when that
  # function returns true, or without either when its port accepts a connection.
  def self.with(command, folder: Dir.pwd, port: free_port, env: {}, ready: nil)
    server = new(command, folder, env.merge('PORT' => port.to_s))
    server.wait_until_ready(ready)
    yield server
  ensure
    server&.stop
  end

  def initialize(command, folder, env)
    @command = command
    @port = Integer(env.fetch('PORT'))
    @log = Tempfile.new('carat-workload-log')
    @pid = Process.spawn(env, *command, chdir: folder, pgroup: true, out: @log.path, err: [:child, :out])
  end

  def wait_until_ready(ready)
    deadline = now + DEADLINE
    until answers?(ready)
      raise "#{@command.join(' ')} ended:\n#{File.read(@log.path)}" if Process.wait(@pid, Process::WNOHANG)
      raise "#{@command.join(' ')} is not ready:\n#{File.read(@log.path)}" if now > deadline

      sleep 0.05
    end
  end

  def get(path)
    Net::HTTP.get_response(URI("http://127.0.0.1:#{port}#{path}"))
  end

  def stop
    Process.kill('TERM', -@pid)
    deadline = now + 15
    sleep 0.05 while group_lives? && now < deadline
    Process.kill('KILL', -@pid) if group_lives?
  rescue Errno::ESRCH
    nil # all gone
  end

  private

  def answers?(ready)
    case ready
    when Proc then ready.call
    when nil then TCPSocket.new('127.0.0.1', port).close.nil?
    else get(ready).is_a?(Net::HTTPSuccess)
    end
  rescue SystemCallError, EOFError
    false
  end

  # Reaps the leader, so that it does not count, and checks whether the group has other processes.
  def group_lives?
    begin
      Process.wait(@pid, Process::WNOHANG)
    rescue Errno::ECHILD
      nil
    end
    Process.kill(0, -@pid)
  rescue Errno::ESRCH
    false
  end

  def now
    Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
end
